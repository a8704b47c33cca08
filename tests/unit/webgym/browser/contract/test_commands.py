"""Commands as they come over the wire."""

import re

import msgspec
import pytest

from tests.cases import for_each
from webgym.browser.contract.commands import (
    COMMANDS,
    Back,
    ClickCoords,
    ClickId,
    FillCoords,
    HoverAndScrollCoords,
    Keypress,
    PageDown,
    read_command,
    read_optional_command,
)
from webgym.browser.contract.errors import BadRequestError

SESSION: dict[str, object] = {"instance_id": "a", "node": "b"}
DOCUMENTED = """visit_page back click_coords click_id fill_coords fill_id select_option hover_coords
    hover_id hover_and_scroll_coords scroll_id page_down page_up keypress sleep tab_and_enter
    get_webpage_text get_page_metadata get_interactive_rects get_screenshot_info screenshot"""


def test_every_command_of_the_contract_is_there() -> None:
    assert set(DOCUMENTED.split()) <= set(COMMANDS)


def test_a_command_is_the_key_beside_the_session() -> None:
    assert read_command(SESSION | {"click_coords": {"x": 10, "y": 20.5}}) == ClickCoords(10, 20.5)


def test_ids_and_numbers_may_be_text() -> None:
    assert read_command(SESSION | {"click_id": {"id": "12"}}) == ClickId(12)
    assert read_command(SESSION | {"click_coords": {"x": "1.5", "y": "2"}}) == ClickCoords(1.5, 2)


@for_each("nothing", [None, {}])
def test_a_command_without_arguments_takes_nothing(nothing: object) -> None:
    assert read_command(SESSION | {"back": nothing}) == Back()


def test_left_out_arguments_have_the_values_of_the_field() -> None:
    fill = read_command(SESSION | {"fill_coords": {"x": 1, "y": 2, "value": "tea"}})
    assert fill == FillCoords(1, 2, "tea", press_enter=True, delete_existing=False)
    assert read_command(SESSION | {"page_down": {}}) == PageDown(200, full_page=False)


def test_other_keys_beside_a_command_are_ignored() -> None:
    answered = SESSION | {"lifetime_mins": 45, "status": "success", "more": {"x": 1}}
    assert read_command(answered | {"back": {}}) == Back()
    assert read_optional_command(SESSION | {"lifetime_mins": 45, "status": "success"}) is None


def test_a_direction_may_be_in_any_case() -> None:
    for name in ("hover_and_scroll_coords", "scroll_coords"):
        body = SESSION | {name: {"x": 1, "y": 2, "direction": "Down"}}
        assert read_command(body) == HoverAndScrollCoords(1, 2, "down")


def test_keys_are_a_list() -> None:
    assert read_command(SESSION | {"keypress": {"keys": ["Control", "a"]}}) == Keypress(
        ("Control", "a")
    )


@for_each(
    ("body", "message"),
    [
        ({}, "no command: give one of visit_page"),
        ({"clik_id": {"id": 1}}, "unknown command 'clik_id': did you mean click_id?"),
        ({"click_id": {"id": 1}, "back": {}}, "give one command at a time, not back, click_id"),
        ({"click_id": {}}, "click_id: Object missing required field `id`"),
        ({"click_id": {"id": 0}}, "click_id: Expected `int` >= 1"),
        ({"click_id": {"id": "abc"}}, "click_id: Expected `int`, got `str`"),
        ({"click_coords": {"x": -1, "y": 0}}, "click_coords: Expected `float` >= 0"),
        ({"click_coords": {"x": float("nan"), "y": 0}}, "click_coords: Expected `float` >= 0"),
        ({"scroll_id": {"id": 1, "direction": "around"}}, "scroll_id: Invalid enum value 'around'"),
        ({"sleep": {"duration": 1e9}}, "sleep: Expected `float` <= 60"),
        ({"keypress": {"keys": []}}, "keypress: Expected `array` of length >= 1"),
        ({"back": {"steps": 2}}, "back: Object contains unknown field `steps`"),
        ({"back": [1]}, "back: Expected `object`, got `array`"),
    ],
)
def test_a_wrong_command_is_named(body: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequestError, match=f"^{re.escape(message)}"):
        read_command(SESSION | body)


def test_a_step_may_have_no_command() -> None:
    assert read_optional_command(SESSION | {"observe": {}}, frozenset({"observe"})) is None


def test_what_reads_a_page_does_not_act_on_it() -> None:
    reading = {name for name, kind in COMMANDS.items() if not kind.acts}
    assert reading == {name for name in COMMANDS if name.startswith("get_")} | {"screenshot"}


def test_commands_write_what_they_read() -> None:
    command = FillCoords(1, 2, "tea")
    body = SESSION | {command.command: msgspec.to_builtins(command)}
    assert read_command(body) == command
