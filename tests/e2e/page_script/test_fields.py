"""Lists and fields: chosen, set and typed into."""

import pytest

from tests.cases import for_each
from tests.e2e.page_script.screen import Play, Screen, takes_text
from webgym.browser.contract.errors import CommandError, UnknownElementError


@for_each("page", ["plain", "shadow"])
def test_a_drop_down_opens_inside_the_page_and_its_options_can_be_clicked(
    play: Play, page: str
) -> None:
    async def scene(screen: Screen) -> None:
        if page == "shadow":
            await screen.open("shadow.html")
        else:
            await screen.show(
                """<select style="width: 130px" onchange="document.title = 'size ' + value">
                <option>Small</option><option>Large</option></select><input>"""
            )
        first = next(each for each in await screen.elements() if each.tag == "select")
        await screen.click(first.id)
        options = [each for each in await screen.elements() if each.tag == "option"]
        assert [option.text for option in options] == ["Small", "Large"]
        assert [option.id for option in options] == [option.id for option in first.options]
        opened = next(each for each in await screen.elements() if each.id == first.id)
        assert opened.expanded
        assert abs(opened.box.width - first.box.width) < 1
        await screen.click(options[1].id)
        assert await screen.page.title() == "size Large"
        await screen.page.locator("input").first.focus()
        assert await screen.page.locator("select").first.get_attribute("data-list-in-page") is None

    play(scene)


def test_an_option_of_a_closed_list_is_chosen_not_clicked(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show("<select><option>One<option>Two</select>")
        (select,) = await screen.elements()
        with pytest.raises(UnknownElementError, match="select_option"):
            await screen.script.locate(select.options[1].id, screen.deadline)
        choice = await screen.script.select_option(select.options[1].id, None, screen.deadline)
        assert (choice.label, choice.changed) == ("Two", True)
        again = await screen.script.select_option(select.id, "two", screen.deadline)
        assert not again.changed

    play(scene)


def test_choosing_an_option_tells_the_page_and_refuses_what_is_not_there(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<select><option value="a">Apple</option><option value="b">Pear</option>
            <option disabled>Plum</option></select><select disabled><option>Fig</select>
            <button>B</button><select multiple><option selected>X<option>Y</select>
            <script>window.told = [];
            const tell = (event) => told.push(event.type + ' ' + event.target.value);
            for (const kind of ['focus', 'input', 'change']) addEventListener(kind, tell, true);
            </script>"""
        )
        select, disabled, button, several = [
            each for each in await screen.elements() if each.tag != "option"
        ]
        await screen.script.select_option(select.id, "b", screen.deadline)
        assert await screen.page.evaluate("told") == ["focus a", "input b", "change b"]
        refusals = (
            (select.id, "Cherry", "unknown option 'Cherry'; it has Apple, Pear, Plum"),
            (select.id, None, "give an option"),
            (select.id, "Plum", "'Plum' is disabled"),
            (disabled.id, "Fig", "is disabled"),
            (button.id, "x", "neither a list nor an option, but <button>"),
        )
        for number, value, message in refusals:
            with pytest.raises(CommandError, match=message):
                await screen.script.select_option(number, value, screen.deadline)
        await screen.script.select_option(several.id, "Y", screen.deadline)
        chosen = "Array.from(document.querySelector('[multiple]').selectedOptions, o => o.text)"
        assert await screen.page.evaluate(chosen) == ["X", "Y"]

    play(scene)


PICKED = (
    ("date", "2024-05-03", "2024-05-03"),
    ("date", "5/3/2024", "2024-05-03"),
    ("date", "", ""),
    ("time", "9:30 PM", "21:30"),
    ("time", "09:05", "09:05"),
    ("datetime-local", "2024-05-03 09:05", "2024-05-03T09:05"),
    ("month", "05/2024", "2024-05"),
    ("week", "2024-W07", "2024-W07"),
    ("color", "#0F8", "#00ff88"),
    ("range", "40", "40"),
)


def test_picked_values_are_set_as_by_their_picker(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        fields = (
            f'<input type="{kind}" value="{"" if given else "2020-01-01"}">'
            for kind, given, _ in PICKED
        )
        await screen.show(
            f"""{"".join(fields)}<script>window.told = [];
            for (const kind of ['input', 'change']) addEventListener(kind, () => told.push(kind));
            </script>"""
        )
        for field, (_, given, held) in zip(await screen.elements(), PICKED, strict=True):
            facts = await screen.script.focus_for_typing(screen.deadline, number=field.id)
            assert facts is not None
            assert facts.kind == "picker"
            assert await screen.script.set_special_value(given, screen.deadline) == held
        assert await screen.page.evaluate("told") == ["input", "change"] * len(PICKED)

    play(scene)


def test_a_value_of_the_wrong_form_is_refused_with_the_right_one(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<input type="date"><input type="range" min="1" max="5"><input type="date" readonly>
            <input type="text">"""
        )
        refusals = (
            (0, "tomorrow", "a date field takes YYYY-MM-DD, not 'tomorrow'"),
            (0, "2024-13-45", "takes YYYY-MM-DD"),
            (1, "9", "a number from 1 to 5"),
            (2, "2024-01-01", "read-only"),
            (3, "x", "kind is text"),
        )
        for index, value, message in refusals:
            await screen.page.locator("input").nth(index).focus()
            with pytest.raises(CommandError, match=message):
                await screen.script.set_special_value(value, screen.deadline)

    play(scene)


@for_each(
    "html",
    [
        '<input value="old" aria-label="Field">',
        '<textarea aria-label="Field">old</textarea>',
        '<div contenteditable aria-label="Field">old <b>text</b></div>',
        '<input type="number" value="12" aria-label="Field">',
    ],
)
def test_typing_replaces_what_a_field_holds(play: Play, html: str) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(f"<body>{html}")
        field = await screen.element("Field")
        assert field.editable
        await screen.click(field.id)
        facts = await screen.script.focus_for_typing(screen.deadline, number=field.id)
        assert takes_text(facts)
        assert await screen.script.select_existing(screen.deadline)
        await screen.page.keyboard.type("34")
        assert (await screen.element("Field")).value == "34"
        assert (await screen.element("Field")).focused

    play(scene)


def test_typing_goes_to_the_field_that_was_meant(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show(
            """<div style="padding: 20px; width: 300px" tabindex="0">
            Name <input style="margin-left: 60px"></div>
            <label for="city">City</label><button>None</button><input id="city">"""
        )
        facts = await screen.script.focus_for_typing(screen.deadline, point=(20, 35))
        assert takes_text(facts)
        button = await screen.element("None")
        await screen.click(button.id)
        facts = await screen.script.focus_for_typing(screen.deadline, number=button.id)
        assert not takes_text(facts)

    play(scene)


def test_a_picker_that_is_pointed_at_takes_the_focus_from_another_field(play: Play) -> None:
    async def scene(screen: Screen) -> None:
        await screen.show("<input type='date'><input type='time' aria-label='Time'>")
        await screen.page.focus("[type=date]")
        box = (await screen.element("Time")).box
        point = (box.x + box.width / 2, box.y + box.height / 2)
        await screen.script.focus_for_typing(screen.deadline, point=point)
        assert await screen.page.evaluate("document.activeElement.type") == "time"

    play(scene)
