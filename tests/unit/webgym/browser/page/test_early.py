"""What pages ask by dialogs, as they tell it over the binding."""

import msgspec

from tests.cases import for_each
from webgym.browser.page.early import BINDING, TEXT_LIMIT, read_dialog


def called(payload: str, name: str = BINDING) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"name": name, "payload": payload}))


def test_a_dialog_is_reported_as_text() -> None:
    assert read_dialog(called('["alert", "Hi", null]')) == "alert: Hi"
    assert read_dialog(called('["confirm", "Sure?", true]')) == "confirm: Sure? (answered OK)"
    assert read_dialog(called('["confirm", "?", false]')) == "confirm: ? (answered Cancel)"
    assert read_dialog(called('["prompt", "Name", "Ada"]')) == "prompt: Name (answered 'Ada')"
    assert read_dialog(called('["prompt", "Name", null]')) == "prompt: Name (answered Cancel)"


def test_what_a_page_says_is_bounded() -> None:
    payload = msgspec.json.encode(["x" * 1000, "y" * 10_000, None]).decode()
    assert read_dialog(called(payload)) == f"{'x' * 20}: {'y' * TEXT_LIMIT}"


@for_each("payload", ["", "x", "[]", '["alert"]', '["alert", 1, null]', '{"a": 1}'])
def test_other_calls_of_the_binding_are_ignored(payload: str) -> None:
    assert read_dialog(called(payload)) is None


def test_calls_of_other_bindings_are_left_out() -> None:
    assert read_dialog(called('["alert", "x", null]', "other")) is None
