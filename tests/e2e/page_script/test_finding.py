"""What the script finds on a page."""

import pytest

from tests.cases import for_each
from tests.e2e.page_script.screen import Play, Screen, takes_text
from webgym.browser.contract.answers import Box
from webgym.browser.contract.errors import UnknownElementError


def test_a_dense_page_lists_what_a_person_could_act_on(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("dense.html")
        elements = await screen.elements()
        by_name = {element.name: element for element in elements}
        assert by_name["Search"].role in {"searchbox", "button"}
        assert by_name["Like volume 3"].text == "♥"
        assert by_name["Hardback"].checked is True
        assert by_name["Audio"].disabled
        assert by_name["In stock only"].type == "checkbox"
        assert by_name["In stock only"].box.width > 60
        assert by_name["More filters"].expanded is False
        assert by_name["Password"].value == "••••••••"
        assert by_name["3 Tide tables 3 87"].tag == "tr"
        assert by_name["Clear history"].role == "generic"
        assert by_name["Your account"].tag == "a"
        department = by_name["Department"]
        assert [option.text for option in department.options][:2] == [
            "All departments",
            "Sea and ships",
        ]
        assert department.value == "Maps"
        assert next(each for each in elements if each.scrollable).tag == "div"
        assert by_name["Order 2 from Leith"].in_view
        assert not by_name["Order 11 from Leith"].in_view
        assert not by_name["About us"].in_view
        for hidden in (
            "A link in a closed accordion",
            "Off-canvas menu entry",
            "An invisible link",
            "A clear link",
            "Jobs",
            "Signed",
        ):
            assert hidden not in by_name
        assert "secret" not in str(elements)

    play(scene)


def test_what_is_one_thing_to_a_person_has_one_mark(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<a href="#x"><button>Link around a button</button></a>
            <button><span style="cursor: pointer" onclick="1">Span in a button</span></button>
            <div onclick="1"><a href="#y">Only link of a box</a></div>
            <div role="button" style="cursor: pointer"><i>Icon</i> <b>and text</b></div>
            <label role="button">Upload<input type="file" style="display: none"></label>
            <div style="cursor: pointer; height: 90px">
            <div>Entry 1</div><div>Entry 2</div><div>Entry 3</div></div>
            """
        )
        assert await screen.names() == [
            "Link around a button",
            "Span in a button",
            "Only link of a box",
            "Icon and text",
            "Upload",
            "Entry 1",
            "Entry 2",
            "Entry 3",
        ]
        assert (await screen.element("Upload")).type == "file"

    play(scene)


def test_frames_are_seen_through_with_their_borders_scale_and_scrolling(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("frames.html")
        names = await screen.names(in_view=True)
        assert {"Outside", "Inside", "Nested", "Nested field", "Scaled"} <= set(names)
        assert set(await screen.names(in_view=False)) == {"Far down", "Below"}
        scaled = await screen.element("Scaled")
        assert (round(scaled.box.width), round(scaled.box.height)) == (100, 30)
        for name, title in (("Inside", "clicked inside"), ("Nested", "clicked nested")):
            await screen.click((await screen.element(name)).id)
            titles = [await frame.title() for frame in screen.page.frames]
            assert title in titles
        for name in ("Scaled", "Below"):
            await screen.click((await screen.element(name)).id)
            assert await screen.page.title() == f"clicked {name.lower()}"

    play(scene)


def test_shadow_roots_are_seen_through_and_clipped_by_what_scrolls(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("shadow.html")
        assert {"Buy apples", "Buy pears"} <= set(await screen.names(in_view=True))
        assert {"Buy figs", "Slotted button"} <= set(await screen.names(in_view=False))
        await screen.click((await screen.element("Buy figs")).id)
        assert await screen.page.title() == "bought figs"

    play(scene)


@for_each(
    ("opener", "inside"),
    [
        ("#open", ["Accept all", "Reject", "More about it"]),
        ("#cover", ["Your address", "Subscribe", "Close"]),
    ],
)
def test_a_dialog_hides_everything_below_it(play: Play, opener: str, inside: list[str]) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("dialog.html")
        below = await screen.element("Under the dialog")
        await screen.page.click(opener)
        assert await screen.names() == inside
        with pytest.raises(UnknownElementError, match="is covered by <"):
            await screen.script.locate(below.id, screen.deadline)

    play(scene)


def test_boxes_end_where_something_lies_over_them(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<style>* { margin: 0 } body > * { position: absolute; height: 100px }</style>
            <header style="position: fixed; z-index: 1; width: 900px; height: 70px">Above</header>
            <button style="left: 0; width: 200px">Below the header</button>
            <button style="left: 300px; width: 200px; z-index: 2">Above the header</button>
            <aside style="left: 50px; top: 300px; width: 400px; height: 150px; z-index: 1">Banner
            <a href="#">In it</a></aside>
            <button style="top: 310px; left: 0; width: 200px">Its right half</button>
            <button style="top: 440px; left: 400px; width: 200px">Its corner</button>
            <div style="top: 600px; left: 0; width: 200px; z-index: 1; pointer-events: none">x</div>
            <button style="top: 600px; left: 0; width: 200px; height: 150px">Glass</button>"""
        )
        boxes = {each.name: each.box for each in await screen.elements()}
        assert boxes["Below the header"] == Box(0, 70, 200, 30)
        assert boxes["Above the header"] == Box(300, 0, 200, 100)
        assert boxes["Its right half"] == Box(0, 310, 50, 100)
        assert boxes["Its corner"] == Box(400, 440, 200, 100)
        assert boxes["Glass"] == Box(0, 600, 200, 150)
        assert "In it" in boxes

    play(scene)


def test_unusual_things_to_act_on_are_found_and_met(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<map name="m"><area href="#north" shape="circle" coords="50,50,40" alt="North"></map>
            <img usemap="#m" width="200" height="100">
            <div style="cursor: pointer; width: 400px; height: 60px">A row
            <i style="display: inline-block; width: 20px; height: 20px" title="Star"></i></div>
            <iframe srcdoc="<body>Draft" width="300" height="60"></iframe>
            <svg width="100" height="40"><a href="#drawn"><title>Drawn</title>
            <rect width="80" height="30"></rect></a></svg>
            <button style="pointer-events: none">Dead</button>
            <div tabindex="0" aria-label="Log" style="height: 60px; overflow: auto">
            <p style="height: 300px">Lines</p></div>"""
        )
        await screen.page.evaluate("frames[0].document.designMode = 'on'")
        elements = await screen.elements()
        listed = [(each.tag, each.name or each.text) for each in elements]
        assert listed == [
            ("area", "North"),
            ("div", "A row"),
            ("i", "Star"),
            ("body", "Draft"),
            ("a", "Drawn"),
            ("div", "Log"),
        ]
        assert elements[3].editable
        assert elements[5].scrollable
        await screen.click(elements[0].id)
        assert await screen.page.evaluate("location.hash") == "#north"
        await screen.click(elements[4].id)
        assert await screen.page.evaluate("location.hash") == "#drawn"
        await screen.click(elements[3].id)
        facts = await screen.script.focus_for_typing(screen.deadline, number=elements[3].id)
        assert takes_text(facts)

    play(scene)


def test_a_frame_of_another_origin_is_listed_as_a_whole(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            '<iframe src="data:text/html,<a href=x>inner</a>" title="Advert"></iframe>'
        )
        (frame,) = await screen.elements()
        assert (frame.tag, frame.name) == ("iframe", "Advert")

    play(scene)
