import logging
from pathlib import Path

import msgspec
import pytest

from tests.unit.webgym.policies.pages import element, page, turn
from webgym.actions.space import (
    Action,
    Click,
    GiveAnswer,
    HoverAndScroll,
    Mark,
    Point,
    Scroll,
    Select,
    Type,
    Wait,
)
from webgym.browser.contract.commands import InteractionMode
from webgym.context.page_view import PageOption, PageText
from webgym.context.page_view import ScrollPosition as ScrollState
from webgym.policies.script import LOOKS, SEARCH_STEPS, Script, ScriptError
from webgym.policies.scripted import (
    CANNOT_CONTINUE,
    NO_RECORDING,
    PoliciesError,
    ScriptedPolicy,
    load_recordings,
)
from webgym.sites.tasks.task import ActionKind, RecordedAction, Solution

BELOW = ScrollState(below=500)


def script(
    *lines: RecordedAction, mode: InteractionMode = "set_of_marks", must_see: bool = True
) -> Script:
    return Script(Solution("one", lines), mode, must_see=must_see)


def click(target: str) -> RecordedAction:
    return RecordedAction(ActionKind.CLICK, target)


def test_an_element_is_found_by_its_name_and_its_kind() -> None:
    shown = page(
        element("link", "City", number=1), element("textbox", "City", "editable", number=2)
    )
    played = script(RecordedAction(ActionKind.TYPE, "City", "Hest"), click("City"))
    assert [played.decide(shown), played.decide(shown)] == [Type(Mark(2), "Hest"), Click(Mark(1))]


def test_an_element_with_a_mark_is_reached_out_of_view_too() -> None:
    shown = page(element("button", "Save", "out of view", number=4))
    assert script(click("Save")).decide(shown) == Click(Mark(4))


def test_with_coordinates_an_element_out_of_view_is_scrolled_to() -> None:
    played = script(click("Save"), mode="coordinates")
    below = page(element("button", "Save", "out of view", point=(500, 1400)))
    above = page(element("button", "Save", "out of view", point=(500, -20)))
    there = page(element("button", "Save", point=(500, 700)))
    assert [played.decide(each) for each in (below, above, there)] == [
        Scroll("down"),
        Scroll("up"),
        Click(Point(500, 700)),
    ]


def test_a_scrollable_area_is_scrolled_until_that_has_no_effect() -> None:
    area = element("listbox", "Harbours", "scrollable", point=(510, 300))
    shown = page(area, element("option", "Brae", "out of view", point=(500, 600)))
    played = script(click("Brae"), mode="coordinates")
    assert [played.decide(shown), played.decide(shown)] == [
        HoverAndScroll(Point(510, 300), "down"),
        Scroll("down"),
    ]


def test_a_missing_element_is_searched_by_scrolling_and_waiting_until_a_limit() -> None:
    played = script(click("Save"))
    long = msgspec.structs.replace(page(), scroll=BELOW)
    assert [played.decide(long), played.decide(page())] == [Scroll("down"), Wait(1.0)]
    for _ in range(SEARCH_STEPS - 2):
        assert played.decide(page()) == Wait(1.0)
    with pytest.raises(ScriptError, match="'Save' was not found at http://site/"):
        played.decide(page())


def test_a_choice_is_one_action_with_numbers_and_two_with_coordinates() -> None:
    line = RecordedAction(ActionKind.SELECT, "Size", "Large")
    options = (PageOption("Small", 5), PageOption("Large", 6))
    box = msgspec.structs.replace(element("combobox", "Size", number=4), options=options)
    assert script(line).decide(page(box)) == Select(Mark(6))

    closed = msgspec.structs.replace(box, id=None, point=(10, 20), flags=("collapsed",))
    opened = msgspec.structs.replace(closed, flags=("expanded",))
    played = script(line, mode="coordinates")
    listed = element("option", "Large", point=(10, 60))
    assert [played.decide(page(closed)), played.decide(page(opened, listed))] == [
        Click(Point(10, 20)),
        Click(Point(10, 60)),
    ]


def see(text: str) -> RecordedAction:
    return RecordedAction(ActionKind.SEE, value=text)


def test_text_to_read_may_span_several_lines() -> None:
    for text in [
        "Opens at\n 10:30",
        'text "Opens at"\ntext "10:30"',
        'RootWebArea "Harbour"\n  [3] heading "Opens at" level=1\n  link "10:30" (focused)',
    ]:
        assert script(see("opens at 10:30")).decide(page(text=text)) is None


def test_required_text_is_waited_for_and_optional_text_only_for_a_while() -> None:
    strict, lenient = script(see("Done")), script(see("Done"), must_see=False)
    assert [strict.decide(page()) for _ in range(LOOKS + 1)] == [Wait(1.0)] * (LOOKS + 1)
    assert [lenient.decide(page()) for _ in range(LOOKS)] == [Wait(1.0)] * LOOKS
    assert lenient.decide(page()) is None


def decide(policy: ScriptedPolicy, task: str, shown: PageText | None, step: int = 1) -> Action:
    return policy.decide(turn(task, shown, step)).action


def test_the_recording_of_the_task_is_played_from_the_start() -> None:
    lines = (click("Bell"), see("Rung"), RecordedAction(ActionKind.ANSWER, value="Done."))
    policy = ScriptedPolicy({"ring the bell.": Solution("one", lines)})
    shown = page(element("button", "Bell", number=3), text="Rung")
    taken = [decide(policy, "Ring the  Bell.", shown, step) for step in (1, 2)]
    assert taken == [Click(Mark(3)), GiveAnswer("Done.")]
    assert decide(policy, "Ring the bell.", shown, 1) == Click(Mark(3))


def test_a_task_without_a_recording_ends_at_once_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert decide(ScriptedPolicy({}), "Ring the bell.", page()) == GiveAnswer(NO_RECORDING)
    assert "no recording for the task 'Ring the bell.'" in caplog.text


def test_a_recording_that_cannot_go_on_ends_the_task() -> None:
    policy = ScriptedPolicy({"ring": Solution("one", (click("Bell"),))})
    shown = page(element("button", "Bell"))
    assert [decide(policy, "Ring", shown, 1), decide(policy, "Ring", shown, 2)] == [
        Click(Mark(1)),
        GiveAnswer(CANNOT_CONTINUE),
    ]
    assert decide(policy, "Ring", None, 1) == GiveAnswer(CANNOT_CONTINUE)


def test_all_tasks_of_the_sites_have_recordings_and_a_file_adds_more(tmp_path: Path) -> None:
    file = tmp_path / "more.jsonl"
    file.write_text('{"task_name": "Ring  it", "actions": [{"click": "Bell"}]}\n\n')
    known = load_recordings(file)
    assert len(known) == len(load_recordings()) + 1
    assert known["ring it"].actions == (click("Bell"),)


def test_a_file_that_holds_no_recordings_is_rejected_by_its_line(tmp_path: Path) -> None:
    for line in ["{", '{"actions": []}', '{"task_name": "x", "actions": [{"click": ["a", "b"]}]}']:
        file = tmp_path / "more.jsonl"
        file.write_text(f"\n{line}\n")
        with pytest.raises(PoliciesError, match=r"more\.jsonl, line 2 is not a recording"):
            load_recordings(file)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PoliciesError, match="cannot read the recordings"):
        load_recordings(tmp_path / "none.jsonl")


def bells(most_conversations: int = 10) -> ScriptedPolicy:
    lines = tuple(click(f"Bell {number}") for number in range(1, 10))
    return ScriptedPolicy({"ring": Solution("one", lines)}, most_conversations)


def rung(policy: ScriptedPolicy, step: int, conversation: str = "one") -> int:
    """The number of the bell that the policy rings in this turn."""
    shown = page(*(element("button", f"Bell {number}", number=number) for number in range(1, 10)))
    action = policy.decide(turn("Ring", shown, step, conversation=conversation)).action
    assert isinstance(action, Click)
    assert isinstance(action.target, Mark)
    return action.target.id


def test_each_conversation_has_its_own_position() -> None:
    policy = bells()
    assert [rung(policy, 1), rung(policy, 1, "two"), rung(policy, 2)] == [1, 1, 2]


def test_a_repeated_request_gets_the_same_decision() -> None:
    policy = bells()
    assert [rung(policy, step) for step in (1, 1, 2, 2, 3)] == [1, 1, 2, 2, 3]


def test_a_conversation_that_starts_again_plays_from_the_start() -> None:
    policy = bells()
    assert [rung(policy, step) for step in (1, 2, 1, 2)] == [1, 2, 1, 2]


def test_the_least_recent_conversations_are_removed() -> None:
    policy = bells(most_conversations=2)
    assert [rung(policy, 5, name) for name in ("one", "two", "one", "three")] == [1, 1, 1, 1]
    assert [rung(policy, 6, "one"), rung(policy, 6, "two")] == [2, 1]


def test_a_request_without_a_conversation_is_not_remembered() -> None:
    policy = bells()
    assert [rung(policy, 1, ""), rung(policy, 2, "")] == [1, 1]
