"""What a session shows of a page, in a real browser behind the real server."""

import base64

import msgspec

from tests.e2e.browsing import MODES, VIEWPORT, Server, Visitor, size_of
from webgym.browser.contract.answers import Box, Element, ImageFormat, Observe, PageInfo
from webgym.browser.contract.commands import ClickId, Screenshot

READABLE = (
    "<html lang=en><title>Harbour Books</title><meta name=description content='Maps and more'>"
    "<h1>Harbour Books</h1><p>First line</p><p>Second line</p>"
    "<iframe srcdoc='<p>In the frame</p><button>Framed</button>'></iframe>"
    "<div><template shadowrootmode=open><p>In the shadow</p><button>Shaded</button>"
    "</template></div>"
    "<nav aria-label=Shelves><a href='/maps' aria-label='All maps'>Maps</a></nav>"
    "<input type=search aria-label=Search placeholder='Find a book' value=sextant>"
    "<button disabled>Buy</button>"
)


def test_the_text_of_a_page_is_read(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(READABLE)
        text = await visitor.session.get_webpage_text()
        assert text.splitlines()[:3] == ["Harbour Books", "First line", "Second line"]
        assert "In the frame" in text
        assert "In the shadow" in text
        assert await visitor.session.get_webpage_text(2) == "Harbour Books\nFirst line"

    browser.browse(scenario)


def test_a_page_says_what_it_is(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(READABLE)
        about = await visitor.session.get_page_metadata()
        assert (about["title"], about["url"]) == ("Harbour Books", f"{visitor.site.url}/")
        assert (about["language"], about["description"]) == ("en", "Maps and more")
        assert about["headings"] == [{"level": 1, "text": "Harbour Books"}]
        assert (about["status"], about["tabs"]) == (200, 1)

    browser.browse(scenario)


def test_elements_are_described(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(READABLE)
        found = await visitor.elements()
        assert set(found) == {"Framed", "Shaded", "All maps", "Search", "Buy"}
        link = found["All maps"]
        assert (link.tag, link.role, link.text) == ("a", "link", "Maps")
        assert link.href == f"{visitor.site.url}/maps"
        assert link.in_view
        search = found["Search"]
        assert (search.role, search.type, search.value) == ("searchbox", "search", "sextant")
        assert search.placeholder == "Find a book"
        assert search.editable
        assert found["Buy"].disabled
        for element in found.values():
            assert element.box.width > 10
            assert 0 <= element.box.y < VIEWPORT[1]

    browser.browse(scenario)


def test_rects_are_keyed_by_the_ids_of_the_elements(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(READABLE)
        found = await visitor.elements()
        rects = await visitor.session.get_interactive_rects()
        assert set(rects) == {str(element.id) for element in found.values()}
        link = found["All maps"]
        rect = msgspec.convert(rects[str(link.id)], dict[str, object])
        assert rect["role"] == "link"
        assert msgspec.convert(rect["box"], Box) == link.box

    browser.browse(scenario)


def test_ids_stay_as_they_are_until_the_page_changes(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(
            "<button onclick='this.before(Object.assign(document.createElement(`button`),"
            " {textContent: `More`}))'>Add</button><button>Other</button>"
        )
        before = {name: each.id for name, each in (await visitor.elements()).items()}
        await visitor.click("Add")
        after = {name: each.id for name, each in (await visitor.elements()).items()}
        assert {name: after[name] for name in before} == before
        assert after["More"] not in before.values()
        await visitor.show("<a href='/'>Only</a>", "/elsewhere")
        new = await visitor.elements()
        assert set(new) == {"Only"}
        stale = max(after.values())
        problem = await visitor.refused(ClickId(stale))
        assert problem.type == "unknown_element"

    browser.browse(scenario, "set_of_marks")


def test_the_accessibility_tree_is_text(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(READABLE)
        tree = str((await visitor.session.get_accessibility_tree())["tree"])
        assert tree.startswith('RootWebArea "Harbour Books"')
        for line in ('link "All maps"', 'searchbox "Search"', 'button "Shaded"', 'button "Framed"'):
            assert line in tree
        answer = await visitor.step(None, Observe(tree=True))
        assert answer.tree == tree
        marked = await visitor.step(None, Observe("set_of_marks", tree=True))
        numbers = {each.name: each.id for each in marked.elements or ()}
        assert marked.tree is not None
        assert f'[{numbers["All maps"]}] link "All maps"' in marked.tree

    browser.browse(scenario)


MANY_LINKS = "<title>Huge</title><h1>All</h1>" + "".join(
    f"<a href='/{number}'>Link {number}</a> " for number in range(30_000)
)
QUICK = 5.0
"""Such a page takes the browser itself half a minute."""


def test_the_tree_of_a_huge_page_comes_soon_and_says_that_there_is_more(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(MANY_LINKS)
        answer = await visitor.step(None, Observe("set_of_marks", tree=True))
        assert answer.timings["observe"] < QUICK
        assert answer.tree is not None
        lines = answer.tree.splitlines()
        assert lines[:2] == ['RootWebArea "Huge"', '  heading "All" level=1']
        numbers = {each.name: each.id for each in answer.elements or ()}
        assert f'  [{numbers["Link 7"]}] link "Link 7" url={visitor.site.url}/7' in lines
        assert lines[-1] == "… (the rest of this large page left out)"
        assert 1_000 < len(lines) < 2_000
        tree = str((await visitor.session.get_accessibility_tree())["tree"])
        assert '  link "Link 7"' in tree

    browser.browse(scenario)


def test_a_page_that_hides_the_documents_own_functions_has_a_tree(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        hiding = "<form name=createTreeWalker><input name=nodeType><input name=shadowRoot></form>"
        await visitor.show(f"<title>Hiding</title>{hiding}<button>Here</button>")
        answer = await visitor.step(None, Observe(tree=True))
        assert answer.tree is not None
        assert 'button "Here"' in answer.tree

    browser.browse(scenario)


def test_a_huge_frame_is_left_out_of_the_tree_of_its_page(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/huge"] = MANY_LINKS
        frames = "<iframe src='/huge'></iframe><iframe srcdoc='<button>Small'></iframe>"
        await visitor.show(f"<title>Page</title><h1>Here</h1>{frames}")
        answer = await visitor.step(None, Observe(tree=True))
        assert answer.timings["observe"] < QUICK
        assert answer.tree is not None
        assert 'heading "Here"' in answer.tree
        assert 'button "Small"' in answer.tree
        assert "Link 7" not in answer.tree
        assert answer.tree.endswith("… (the rest of this large page left out)")

    browser.browse(scenario)


def test_screenshots_come_in_three_formats_over_every_route(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(READABLE)
        formats: tuple[ImageFormat, ...] = ("png", "jpeg", "webp")
        for image_format in formats:
            for mode in MODES:
                picture = await visitor.session.screenshot(mode, image_format)
                assert picture.media_type == f"image/{image_format}"
                assert size_of(picture) == VIEWPORT
            answer = await visitor.step(None, Observe("coordinates", image_format, quality=30))
            assert answer.screenshot is not None
            assert answer.screenshot.media_type == f"image/{image_format}"
            assert size_of(answer.screenshot) == VIEWPORT
        plain = await visitor.session.screenshot("coordinates")
        marked = await visitor.session.screenshot("set_of_marks")
        assert plain != marked
        assert await visitor.session.screenshot("coordinates") == plain
        taken = await visitor.session.execute(Screenshot("coordinates"))
        assert taken["status"] == "screenshot_taken"
        assert base64.b64decode(str(taken["screenshot"])) == plain.data
        nothing = await visitor.step(None, Observe(screenshot=None))
        assert nothing.screenshot is None

    browser.browse(scenario)


def test_the_last_screenshot_is_explained(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show("<title>One</title><button>Push</button>")
        answer = await visitor.step(None, Observe("set_of_marks"))
        shown = await visitor.session.get_screenshot_info()
        assert msgspec.convert(shown["page"], PageInfo) == answer.page
        assert msgspec.convert(shown["elements"], tuple[Element, ...]) == answer.elements

    browser.browse(scenario)
