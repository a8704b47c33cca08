"""Keys by their names."""

import pytest

from tests.cases import for_each
from webgym.browser.contract.errors import CommandError
from webgym.browser.page.input import CONTROL, KeyboardKey, character_key, find_key, find_keys


@for_each(
    ("name", "key"),
    [
        ("Enter", "Enter"),
        ("return", "Enter"),
        ("ESC", "Escape"),
        ("page_down", "PageDown"),
        ("PageDown", "PageDown"),
        ("Page Down", "PageDown"),
        ("up", "ArrowUp"),
        ("arrow-left", "ArrowLeft"),
        ("F5", "F5"),
        ("ctrl", "Control"),
        ("Cmd", "Meta"),
        ("space", " "),
        ("a", "a"),
        ("A", "A"),
        ("é", "é"),
        ("+", "+"),
    ],
)
def test_a_key_has_the_names_that_people_use(name: str, key: str) -> None:
    assert find_key(name).key == key


def test_an_unknown_key_is_named_with_those_there_are() -> None:
    with pytest.raises(CommandError, match="unknown key 'Entre': use one character or one of"):
        find_key("Entre")


@for_each("written", [("Control", "a"), ("ctrl+a",), ("CTRL+a",)])
def test_a_combination_may_be_one_text(written: tuple[str, ...]) -> None:
    keys = find_keys(written)
    assert [key.key for key in keys] == ["Control", "a"]
    assert keys[0].modifier == CONTROL


def test_a_plus_is_a_key_too() -> None:
    assert [key.key for key in find_keys(("+",))] == ["+"]
    assert [key.key for key in find_keys(("Control", "+"))] == ["Control", "+"]


def test_characters_of_the_keyboard_have_their_key() -> None:
    assert character_key("q") == KeyboardKey("q", "KeyQ", 81, "q")
    assert character_key("7") == KeyboardKey("7", "Digit7", 55, "7")
    assert character_key("?") == KeyboardKey("?", "Slash", 191, "?")
    assert character_key("\n").key == "Enter"


def test_other_characters_have_none_and_are_put_in_as_text() -> None:
    assert character_key("語") == KeyboardKey("語", "", 0, "語")
