"""Pages that are made to trip the script up, or do so by their size."""

from tests.cases import for_each
from tests.e2e.page_script.screen import LONG_AGO, Play, Screen

ODD_PAGES = {
    "frameset": "<frameset cols='50%,50%'><frame src='about:blank'><frame></frameset>",
    "plain text": "data:text/plain,just text",
    "svg": "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'>"
    "<a href='x'><text y='20'>Link</text></a></svg>",
    "xml": "data:application/xml,<a><b>text</b></a>",
    "blank": "about:blank",
    "no body": "data:text/html,<script>document.documentElement.remove()</script>",
    "removed body": "data:text/html,<script>document.write('<p>x');document.body.remove()</script>",
}


@for_each("kind", ODD_PAGES)
def test_odd_documents_are_taken_as_they_are(play: Play, kind: str) -> None:
    async def scene(screen: Screen) -> None:
        page = ODD_PAGES[kind]
        if page.startswith("<"):
            await screen.show(page)
        else:
            await screen.visit(page)
        script = screen.script
        await screen.elements()
        await script.draw_marks(screen.deadline)
        await script.erase_marks(screen.deadline)
        assert isinstance(await script.text(10, screen.deadline), str)
        assert (await script.metadata(screen.deadline))["url"]
        assert (await script.page_info(screen.deadline)).width == 1280
        assert await script.quiet(0.02, 2, LONG_AGO, screen.deadline) == "quiet"
        await script.at(10, 10, screen.deadline)
        await script.scroll_page(100, screen.deadline)

    play(scene)


def test_a_form_whose_fields_hide_its_properties_changes_nothing(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        hidden = "id tagName localName nodeType parentNode getAttribute shadowRoot style contains"
        fields = "".join(f'<input name="{name}" aria-label="{name}">' for name in hidden.split())
        await screen.show(
            f'<form onclick="1" tabindex="0" style="overflow: auto; height: 200px">{fields}'
            '<p style="height: 900px"><button type="button">Send</button></form>'
        )
        assert set(hidden.split()) <= set(await screen.names())
        await screen.click((await screen.element("Send")).id)
        await screen.script.text(10, screen.deadline)
        assert await screen.script.scroll_element(
            (await screen.element("Send")).id, "up", screen.deadline
        ) in {True, False}

    play(scene)


def test_deep_and_large_pages_are_bounded(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<body><script>let node = document.body;
            for (let depth = 0; depth < 1000; depth++)
              node = node.appendChild(document.createElement('div'));
            node.innerHTML = '<button>Deep</button>';
            const many = '<p><a href=x>link</a> <b>text</b></p>'.repeat(8000);
            document.body.insertAdjacentHTML('beforeend', many);
            </script>"""
        )
        elements = await screen.elements()
        assert elements[0].name == "Deep"
        assert 100 < len(elements) <= 500
        await screen.script.locate(elements[0].id, screen.deadline)
        assert len((await screen.script.text(50, screen.deadline)).splitlines()) == 50

    play(scene)


def test_strange_text_survives_and_long_text_is_cut(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show("<button id=a></button><button id=b></button>")
        await screen.page.evaluate(
            """document.getElementById('a').textContent = 'half \\ud83d pair';
            document.getElementById('b').textContent = '😀'.repeat(500);
            document.title = '\\udc00';"""
        )
        half, long = await screen.elements()
        assert half.name == "half \ufffd pair"
        assert len(long.name) <= 200
        assert (await screen.script.page_info(screen.deadline)).title == "\ufffd"

    play(scene)


def test_the_page_cannot_see_the_script_or_its_numbers(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<button>One</button><script>
            Element.prototype.getBoundingClientRect = () => { throw new Error('patched') };
            WeakMap.prototype.get = () => 7; JSON.stringify = () => 'patched';
            window.names = Object.getOwnPropertyNames(window).length</script>"""
        )
        (one,) = await screen.elements()
        assert one.box.width > 10
        assert await screen.page.evaluate("Object.getOwnPropertyNames(window).length - names") <= 1

    play(scene)
