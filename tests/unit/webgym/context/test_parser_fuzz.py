"""Any text at all: nothing raises, nothing is both an action and a failure, nothing is guessed."""

import json

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from webgym.actions.space import (
    Action,
    Click,
    GiveAnswer,
    GoBack,
    Mark,
    Point,
    PressKeys,
    Scroll,
    Target,
    Type,
    Wait,
)
from webgym.browser.contract.commands import InteractionMode
from webgym.context.parsers import ParsedReply, parse_reply, without_thinking
from webgym.context.parsers.loose_json import Tolerances, read_whole
from webgym.context.prompts import example_reply
from webgym.context.settings import ContextSettings

FEW = settings(max_examples=30)
MANY = settings(max_examples=3_000)

SETTINGS = st.builds(
    ContextSettings,
    interaction_mode=st.sampled_from(["coordinates", "set_of_marks"]),
    prompt_version=st.sampled_from(["complete", "vanilla"]),
    thinking=st.booleans(),
)
ANY_TEXT = st.text(st.characters(), max_size=200)  # lone surrogates too
PIECES = st.lists(
    st.sampled_from(
        [
            *("<tool_call>", "</tool_call>", "<think>", "</think>", "```json", "```", "\n", " "),
            *('{"name": "computer_use", "arguments": ', '{"action": "left_click", "coordinate": '),
            *("[512, 340]", "}", "{", '"', "'", "\\", ",", "None", "1e9", "Memory and Progress: "),
            *("Intention: ", "Action: ", '{"memory": ', '"progress": ', "\ud800", "\x00"),
        ]
    ),
    max_size=30,
).map("".join)
SCALE = st.integers(0, 1000)
POINTS = st.builds(Point, SCALE, SCALE)
MARKS = st.builds(Mark, st.integers(1, 10**9))
TEXTS = st.text(max_size=60)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def acts(draw: st.DrawFn) -> tuple[InteractionMode, Action]:
    mode: InteractionMode = draw(st.sampled_from(["coordinates", "set_of_marks"]))
    targets: st.SearchStrategy[Target] = POINTS if mode == "coordinates" else MARKS
    target = draw(targets)
    return mode, draw(
        st.sampled_from([Click(target), GoBack(), Scroll("up"), PressKeys(("Control", "a"))])
        | st.builds(Type, st.just(target), TEXTS)
        | st.builds(GiveAnswer, TEXTS)
        | st.builds(Wait, st.integers(0, 60))
    )


def check(reply: ParsedReply) -> None:
    assert (reply.action is None) != (reply.failure is None)
    assert len(set(reply.tolerances)) == len(reply.tolerances)
    msgspec.json.encode((reply.fields, reply.failure, reply.tolerances))
    if reply.action is not None:
        msgspec.json.encode(reply.action.arguments)


@FEW
@given(ANY_TEXT | PIECES, SETTINGS)
@example("<tool_call>\ud800", ContextSettings())
def test_any_text_has_a_result(text: str, context: ContextSettings) -> None:
    check(parse_reply(text, context))


@pytest.mark.campaign
@MANY
@given(ANY_TEXT | PIECES, SETTINGS)
def test_very_many_texts_have_a_result(text: str, context: ContextSettings) -> None:
    check(parse_reply(text, context))


@FEW
@given(acts(), TEXTS, TEXTS)
def test_a_reply_of_the_strict_grammar_is_read_exactly(
    act: tuple[InteractionMode, Action], memory: str, progress: str
) -> None:
    mode, action = act
    notes = json.dumps({"memory": memory, "progress": progress})
    head = f"Memory and Progress: {notes}\nIntention: i\nAction: a\n"
    text = head + action.write(mode).text
    if without_thinking(text) != text.strip():
        return  # a tag of thinking inside a text is none of this grammar
    reply = parse_reply(text, ContextSettings(interaction_mode=mode))
    assert (reply.failure, reply.tolerances) == (None, ())
    assert reply.action == action
    assert (reply.fields["memory"], reply.fields["progress"]) == (memory, progress)


def check_mutation(act: tuple[InteractionMode, Action], data: st.DataObject) -> None:
    """Cutting out a piece anywhere around the arguments never makes another action."""
    mode, action = act
    text = f"Action: a\n{action.write(mode).text}"
    inside = text.index('"arguments"') + len('"arguments"'), text.index("</tool_call>") - 1
    places = [at for at in range(len(text)) if not inside[0] <= at < inside[1]]
    start = data.draw(st.sampled_from(places))
    length = data.draw(st.integers(1, 3))
    gone = {at for at in range(start, start + length) if at in places}
    mutated = "".join(letter for at, letter in enumerate(text) if at not in gone)
    context = ContextSettings(interaction_mode=mode, prompt_version="vanilla")
    reply = parse_reply(mutated, context)
    check(reply)
    assert reply.action in {None, action}


@FEW
@given(acts(), st.data())
def test_a_mutated_reply_is_the_same_action_or_none(
    act: tuple[InteractionMode, Action], data: st.DataObject
) -> None:
    check_mutation(act, data)


@pytest.mark.campaign
@MANY
@given(acts(), st.data())
def test_very_many_mutated_replies_are_the_same_action_or_none(
    act: tuple[InteractionMode, Action], data: st.DataObject
) -> None:
    check_mutation(act, data)


@FEW
@given(acts(), st.data(), SETTINGS)
def test_a_reply_with_anything_in_it_has_a_result(
    act: tuple[InteractionMode, Action], data: st.DataObject, context: ContextSettings
) -> None:
    text = example_reply(context) + act[1].write(act[0]).text
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 8)))
    check(parse_reply(text[:at] + data.draw(ANY_TEXT | PIECES) + text[until:], context))


@FEW
@given(acts())
def test_a_reply_that_is_cut_off_is_not_an_action(act: tuple[InteractionMode, Action]) -> None:
    mode, action = act
    text = f"Action: a\n{action.write(mode).text}"
    end = text.rindex("}")
    context = ContextSettings(interaction_mode=mode, prompt_version="vanilla")
    for cut in range(0, end, 7):
        assert parse_reply(text[:cut], context).action is None


@FEW
@given(JSON)
def test_json_is_read_as_json_without_tolerances(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        tolerated = Tolerances()
        assert read_whole(text, tolerated) == value
        assert tolerated.names == ()


@FEW
@given(JSON)
def test_python_literals_are_read_as_their_values(value: object) -> None:
    """Less `\\x00` and the like, which JSON does not have."""
    text = repr(value)
    if "\\x" not in text and "\\U" not in text:
        assert read_whole(text, Tolerances()) == value


@FEW
@given(st.text(st.sampled_from("<>/think abc\n"), max_size=60) | PIECES)
def test_nothing_said_has_a_tag_of_thinking(text: str) -> None:
    said = without_thinking(text).lower()
    assert "<think>" not in said
    assert "</think>" not in said
