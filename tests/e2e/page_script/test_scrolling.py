"""Scrolling by number and by page."""

import pytest

from tests.e2e.page_script.screen import Play, Screen
from webgym.browser.contract.commands import Direction
from webgym.browser.contract.errors import UnknownElementError


def test_scrolling_says_whether_anything_moved(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.open("dense.html")
        order = await screen.element("Order 2 from Leith")
        script = screen.script
        assert await script.scroll_element(order.id, "down", screen.deadline)
        assert await screen.page.evaluate("document.getElementById('recent').scrollTop") > 100
        assert not await script.scroll_element(order.id, "right", screen.deadline)
        assert await script.scroll_page(300, screen.deadline)
        info = await script.page_info(screen.deadline)
        assert info.scroll_y == 300
        assert info.page_height > 1600
        assert await script.scroll_page(100_000, screen.deadline)
        assert not await script.scroll_page(100_000, screen.deadline)
        with pytest.raises(UnknownElementError):
            await script.scroll_element(9999, "down", screen.deadline)

    play(scene)


def test_a_page_that_cannot_scroll_scrolls_its_largest_area(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<style>html, body { margin: 0; height: 100%; overflow: hidden }</style>
            <nav style="position: fixed; width: 200px; height: 100%; overflow: auto">
            <p style="height: 3000px"></nav>
            <form style="margin-left: 200px; height: 100%; overflow: auto">
            <input name="scrollTop"><input name="scrollBy"><p style="height: 5000px"></form>"""
        )
        assert await screen.script.scroll_page(250, screen.deadline)
        get = "Object.getOwnPropertyDescriptor(Element.prototype, 'scrollTop').get"
        assert await screen.page.evaluate(f"{get}.call(document.querySelector('form'))") == 250

    play(scene)


def test_a_page_in_quirks_mode_scrolls_although_no_element_of_it_does(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            "<style>html, body { overflow-x: hidden }</style><p style='height: 3000px'>Long"
        )
        assert await screen.page.evaluate("document.scrollingElement") is None
        assert await screen.script.scroll_page(300, screen.deadline)
        assert (await screen.script.page_info(screen.deadline)).scroll_y == 300
        assert await screen.script.scroll_page(-1000, screen.deadline)
        assert not await screen.script.scroll_page(-1000, screen.deadline)

    play(scene)


def test_a_turn_of_the_wheel_does_not_pass_what_a_small_area_shows(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<style>* { margin: 0 }</style>
            <ul id="list" style="height: 100px; overflow: auto"><li style="height: 500px">Long</ul>
            <p style="height: 2000px">The page"""
        )

        async def distance(y: float, direction: Direction) -> float:
            return await screen.script.wheel_distance(50, y, direction, 400, screen.deadline)

        assert await distance(50, "down") == 80
        assert await distance(50, "up") == 400
        assert await distance(300, "down") == 400
        await screen.page.evaluate("list.scrollTop = 1000")
        assert await distance(50, "up") == 80
        assert await distance(50, "down") == 400

    play(scene)
