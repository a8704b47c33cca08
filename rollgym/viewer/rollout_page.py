"""The page of one rollout: how it went, what it was worth, and everything its row says."""

from bisect import bisect_left, bisect_right
from typing import Any

from rollgym.records import RowError
from rollgym.rollouts.fields import METADATA
from rollgym.viewer.frame import (
    TEXT_LIMIT,
    Place,
    field_list,
    folded,
    number,
    page,
    text_block,
    verdict,
)
from rollgym.viewer.index import RolloutIndex
from rollgym.viewer.json_text import indented
from rollgym.viewer.markup import Element, element, group
from rollgym.viewer.rollout import FAILURE, Rollout
from rollgym.viewer.selection import Filter, lines_of_task
from rollgym.viewer.transcript import Part, ToolCall, Turn

TURN_LIMIT = 1_000
REPEATS_LIMIT = 200


def rollout_page(place: Place, index: RolloutIndex, wanted: Filter, line: int) -> bytes:
    """The rollout in a line that is known."""
    raw = index.line(line)
    ways = _ways(place, index, wanted, line)
    try:
        rollout = Rollout(raw)
    except RowError as error:
        problem = element("p", f"Line {line} cannot be read: {error}", class_="note")
        text = raw[:TEXT_LIMIT].decode("utf-8", "replace")
        return page(place, f"Line {line}", ways, problem, text_block(text))
    head = index.head(line)
    named = head.task is not None and head.repeat is not None
    return page(
        place,
        f"Task {head.task}, rollout {head.repeat}" if named else f"Line {line}",
        ways,
        _repeats(place, index, wanted, line),
        element(
            "dl",
            _fact("reward", number(head.reward)),
            _fact("outcome", rollout.failure_class or verdict(head.success)),
            _fact("tool calls", str(rollout.tool_calls)),
            class_="overview",
        ),
        _section("Failure", _fields(rollout.value(FAILURE))),
        _section("Task", _conversation(rollout.prompt)),
        folded("Tools and parameters", _fields(_request(rollout))),
        _section("Transcript", _conversation(rollout.turns)),
        _section("Metadata", _fields(rollout.value(METADATA))),
        _section("Task and verifier fields", field_list(rollout.other_fields)),
        folded("Raw JSON", _raw(place, line, raw)),
    )


def _ways(place: Place, index: RolloutIndex, wanted: Filter, line: int) -> Element:
    """To the rollouts beside this one, among those that fit the filter."""
    lines, query = wanted.select(index.columns), wanted.query()
    before, after = bisect_left(lines, line) - 1, bisect_right(lines, line)
    links = [element("a", "List", href=place.url(query=query))]
    for text, position in (("Previous", before), ("Next", after)):
        if 0 <= position < len(lines):
            links.append(element("a", text, href=place.url(lines[position], query)))
        else:
            links.append(element("span", text, class_="off"))
    return group("nav", links, class_="pages")


def _repeats(place: Place, index: RolloutIndex, wanted: Filter, line: int) -> Element | None:
    task = index.head(line).task
    lines = [] if task is None else lines_of_task(index.columns, task, REPEATS_LIMIT)
    if len(lines) < 2:
        return None
    links = (_repeat(place, index, wanted, other, current=other == line) for other in lines)
    return group("nav", ("Rollouts of this task: ", *links), class_="repeats")


def _repeat(
    place: Place, index: RolloutIndex, wanted: Filter, line: int, *, current: bool
) -> Element:
    head = index.head(line)
    name = f"line {line}" if head.repeat is None else str(head.repeat)
    return element(
        "a",
        f"{name} ({number(head.reward)})",
        href=place.url(line, wanted.query()),
        aria_current="page" if current else None,
        class_=None if head.success is None else f"is-{head.success}".lower(),
    )


def _conversation(turns: list[Turn]) -> Element | None:
    if not turns:
        return None
    shown = [_turn(turn) for turn in turns[:TURN_LIMIT]]
    if len(turns) > TURN_LIMIT:
        rest = f"{len(turns) - TURN_LIMIT} more turns are in the raw JSON below."
        shown.append(element("p", rest, class_="note"))
    return group("div", shown)


def _turn(turn: Turn) -> Element:
    reasoning = text_block(turn.reasoning) if turn.reasoning else None
    return group(
        "article",
        (
            element("h3", f"{turn.role}: {turn.tool}" if turn.tool else turn.role),
            folded("Reasoning", reasoning),
            *(_part(part) for part in turn.parts),
            *(_call(call) for call in turn.calls),
        ),
        class_="turn",
        data_role=turn.role,
    )


def _part(part: Part) -> Element:
    if isinstance(part, str):
        return text_block(part)
    return element("img", src=part.url, alt="a picture of the conversation")


def _call(call: ToolCall) -> Element:
    arguments = (
        call.arguments if isinstance(call.arguments, dict) else {"arguments": call.arguments}
    )
    return element(
        "div",
        element("p", "calls ", element("code", call.name)),
        field_list(arguments),
        class_="call",
    )


def _request(rollout: Rollout) -> dict[str, Any]:
    tools = rollout.params.get("tools")
    return {**rollout.sampling, **({"tools": tools} if tools else {})}


def _raw(place: Place, line: int, raw: bytes) -> Element:
    return element(
        "div",
        element("a", "The line as it is in the file", href=f"{place.url(line)}.json"),
        text_block(indented(raw)),
    )


def _fields(value: object) -> Element | None:
    if value is None:
        return None
    return field_list(value if isinstance(value, dict) else {"value": value})


def _section(title: str, content: Element | None) -> Element | None:
    return None if content is None else element("section", element("h2", title), content)


def _fact(name: str, text: str | Element) -> Element:
    return element("div", element("dt", name), element("dd", text))
