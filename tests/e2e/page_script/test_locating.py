"""From a number to a point that meets the element, and what is at a point."""

import pytest

from tests.e2e.page_script.screen import Play, Screen, takes_text
from webgym.browser.contract.errors import UnknownElementError


def test_a_card_and_the_button_on_it_are_two_things_and_each_is_met(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<a href="#card" style="display: block; width: 300px; height: 200px">
            <span style="display: flex; height: 200px; align-items: center; justify-content: end">
            <button onclick="event.preventDefault(); document.title = 'button'">Save</button></span>
            A card</a>"""
        )
        card, button = await screen.elements()
        await screen.click(card.id)
        assert await screen.page.evaluate("location.hash") == "#card"
        await screen.click(button.id)
        assert await screen.page.title() == "button"

    play(scene)


def test_numbers_stay_with_their_elements_and_are_never_given_again(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show("<button>One</button><button>Two</button>")
        before = {each.name: each.id for each in await screen.elements()}
        await screen.page.evaluate(
            """document.body.insertAdjacentHTML('afterbegin', '<button>New</button>');
            document.querySelectorAll('button')[2].remove();"""
        )
        after = {each.name: each.id for each in await screen.elements()}
        assert after["One"] == before["One"]
        assert after["New"] > max(before.values())
        with pytest.raises(UnknownElementError, match="element 2 is not on the page now"):
            await screen.script.locate(before["Two"], screen.deadline)

    play(scene)


def test_locating_scrolls_and_says_why_it_cannot(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<button>Here</button><div style="height: 3000px"></div>
            <footer style="position: fixed; inset: auto 0 0; height: 100px">Footer</footer>
            <button>Far</button><button disabled>Off</button><div style="height: 300px"></div>"""
        )
        here, far, off = await screen.elements()
        await screen.script.locate(here.id, screen.deadline)
        assert await screen.page.evaluate("scrollY") == 0
        place = await screen.script.locate(far.id, screen.deadline)
        assert await screen.page.evaluate("scrollY") > 0
        assert place.y < 668
        assert (await screen.script.locate(off.id, screen.deadline)).facts.disabled
        await screen.page.evaluate("document.querySelector('button').style.visibility = 'hidden'")
        with pytest.raises(UnknownElementError, match="hidden"):
            await screen.script.locate(here.id, screen.deadline)
        with pytest.raises(UnknownElementError, match="element 99 is not"):
            await screen.script.locate(99, screen.deadline)

    play(scene)


def test_the_point_of_a_wrapped_link_lies_on_the_link(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<p style="width: 200px">Some words in front of it
            <a href="#met">a link that wraps here</a> and on</p>
            <p>A picture: <a href="#picture"><img width="80" height="60" alt="Ship"></a></p>"""
        )
        link, picture = await screen.elements()
        await screen.click(link.id)
        assert await screen.page.evaluate("location.hash") == "#met"
        await screen.page.evaluate("location.hash = ''")
        x, y = link.box.x + link.box.width / 2, link.box.y + link.box.height / 2
        await screen.page.mouse.click(x, y)
        assert await screen.page.evaluate("location.hash") == "#met"
        assert picture.box.height > 50
        await screen.click(picture.id)
        assert await screen.page.evaluate("location.hash") == "#picture"

    play(scene)


def test_facts_at_a_point_are_those_of_what_a_click_acts_on(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<style>* { margin: 0 } body > * { position: absolute; height: 30px }</style>
            <select style="top: 0"><option>One</select>
            <div contenteditable style="top: 40px"><b>bold</b></div>
            <label style="top: 80px">Upload<input type="file" hidden></label>
            <input type="date" style="top: 120px"><input readonly style="top: 160px">
            <p style="top: 200px">Plain</p>"""
        )
        kinds = []
        for y in (10, 50, 90, 130, 170, 210):
            facts = await screen.script.at(10, y, screen.deadline)
            assert facts is not None
            kinds.append((facts.tag, facts.kind, takes_text(facts)))
        assert kinds == [
            ("select", "dropdown", False),
            ("b", "rich", True),
            ("input", "file", False),
            ("input", "picker", False),
            ("input", "text", False),
            ("p", "other", False),
        ]
        assert await screen.script.at(5000, 5000, screen.deadline) is None

    play(scene)
