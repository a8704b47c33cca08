"""The numbered boxes of the set of marks."""

from tests.e2e.page_script.screen import Play, Screen
from webgym.browser.page.accessibility import read_tree, tree_text

LAST_ELEMENT = "document.documentElement.lastElementChild.localName"


def test_marks_lie_above_the_page_and_leave_no_trace(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("dialog.html")
        await screen.page.click("#open")
        clean = await screen.page.screenshot()
        before = await screen.page.evaluate("document.documentElement.outerHTML")
        await screen.script.draw_marks(screen.deadline)
        assert await screen.page.screenshot() != clean
        assert (
            await screen.page.evaluate("document.documentElement.lastElementChild.shadowRoot")
            is None
        )
        assert await screen.names() == ["Accept all", "Reject", "More about it"]
        await screen.script.erase_marks(screen.deadline)
        assert await screen.page.screenshot() == clean
        assert await screen.page.evaluate("document.documentElement.outerHTML") == before

    play(scene)


def test_marks_are_drawn_under_a_strict_content_policy(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
            <button>One</button>"""
        )
        clean = await screen.page.screenshot()
        await screen.script.draw_marks(screen.deadline)
        assert await screen.page.screenshot() != clean

    play(scene)


def test_a_number_is_not_drawn_over_text_where_there_is_room_beside_it(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<div style="margin: 60px; font: 16px sans-serif">
            <p style="margin: 0 0 3px">Barrels of whale oil</p>
            Oil <button>-</button> <output>3</output> <button>+</button></div>"""
        )
        count = screen.page.locator("output")
        clean = await count.screenshot()
        await screen.script.draw_marks(screen.deadline)
        assert await screen.page.evaluate(LAST_ELEMENT) == "page-marks"
        assert await count.screenshot() == clean

    play(scene)


def test_a_number_in_running_text_goes_where_a_line_has_ended(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<p style="margin: 60px; width: 600px; font: 16px/24px monospace">
            It is a feast of the isles on <b>13 October</b>. It remembers<br>
            the rain that ended the fire in <a href="#">Port Selwick</a>, in 1761,
            in which nobody was lost."""
        )
        date = screen.page.locator("b")
        clean = await date.screenshot()
        await screen.script.draw_marks(screen.deadline)
        assert await screen.page.evaluate(LAST_ELEMENT) == "page-marks"
        assert await date.screenshot() == clean

    play(scene)


def test_the_tree_carries_the_numbers_of_the_marks(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            "<main><h1>Shop</h1><p>Text <button>Add</button></p><a href='#x'>Maps</a></main>"
        )
        marks = await screen.marked_nodes()
        text = tree_text(read_tree(await screen.tree()), marks=marks)
        assert '  [1] button "Add"' in text
        assert '[2] link "Maps" url=' in text
        assert 'heading "Shop" level=1' in text

    play(scene)
