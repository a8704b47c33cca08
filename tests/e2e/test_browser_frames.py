"""Fields behind borders: frames of another origin, sandboxed frames, and closed shadow roots."""

from tests.e2e.browsing import Server, Site, Visitor
from webgym.browser.contract.answers import Observe
from webgym.browser.contract.commands import FillCoords

FORM = """<form onsubmit="setTimeout(() => { document.getElementById('said').textContent = 'Said ' +
  this.elements.word.value }, 250); return false">
  <label>NAME word <input name=word value=old></label><button>NAME say</button></form>
  <p id=said></p>
  <select aria-label="NAME list"><option>One<option>Two</select>"""
CLOSED = """<section id=host style="display: block"></section><script>
  const root = document.getElementById('host').attachShadow({mode: 'closed'});
  root.innerHTML = `<label>Closed word <input value=old></label><button>Closed say</button>
    <p>Closed text</p>`;
  root.querySelector('input').onkeydown = (event) => {
    if (event.key === 'Enter') document.title = 'Said ' + event.target.value;
  };
</script>"""
DECLARED = """<my-field style="display: block"><template shadowrootmode=closed>
  <input aria-label="Declared word" style="width: 200px" value=old onkeydown="
    if (event.key === 'Enter') document.title = 'Said ' + event.target.value"></template></my-field>
"""


def form(name: str) -> str:
    return "<!doctype html>" + FORM.replace("NAME", name)


def test_fields_in_frames_of_another_origin_are_used_like_others(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        async with Site().serving() as other:
            other.pages |= {"/form": form("Framed"), "/boxed": form("Boxed")}
            elsewhere = other.url.replace("127.0.0.1", "localhost")
            await visitor.show(
                f"<title>Outer</title><iframe src='{elsewhere}/form' width=600 height=200></iframe>"
                f"<iframe src='{other.url}/boxed' sandbox='allow-scripts allow-forms' width=600>"
                "</iframe>"
            )
            for name in ("Framed", "Boxed"):
                await visitor.fill(f"{name} word", "new", enter=True, replace=True)
                assert f"{name} say" in await visitor.elements()
            text = await visitor.text()
            assert text.count("Said new") == 2, text
            await visitor.click("Framed list")
            assert "Two" in await visitor.elements()
            tree = (await visitor.step(None, Observe("set_of_marks", tree=True))).tree
            say = await visitor.element("Framed say")
            assert tree is not None
            assert f'[{say.id}] button "Framed say"' in tree

    browser.browse_in_both_modes(scenario)


def test_fields_in_closed_shadow_roots_are_used_like_others(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(CLOSED)
        assert "Closed say" in await visitor.elements()
        assert "Closed text" in await visitor.text()
        answer = await visitor.fill("Closed word", "new", enter=True, replace=True)
        assert answer.page.title == "Said new"

    async def declared(visitor: Visitor) -> None:
        await visitor.show(DECLARED)
        answer = await visitor.step(FillCoords(100, 18, "new", delete_existing=True))
        assert answer.page.title == "Said new"

    browser.browse_in_both_modes(scenario)
    browser.browse(declared)
