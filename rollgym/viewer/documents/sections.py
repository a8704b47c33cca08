"""What a row says beside its conversation, under headings.

What the verifier added and what the task brought along stand side by side in a row. Which is which
is known where the task's input row is: a field that is there, with the same value, is the task's.
Where it is not known, they stand together.
"""

from collections.abc import Iterator, Mapping

import msgspec

from rollgym.rollouts.fields import (
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    METADATA,
    NO_PERSIST,
    OUTPUT,
    PARAMS,
    RESPONSE,
    REWARD,
    ROLLOUT_INDEX,
    STORED_ROLLOUTS,
    SUCCESS,
    TASK_INDEX,
)
from rollgym.rollouts.output_row import same_value
from rollgym.viewer.documents.failures import FAILURE
from rollgym.viewer.documents.pointer import child
from rollgym.viewer.documents.response import response_facts
from rollgym.viewer.documents.texts import json_text, short, string_text
from rollgym.viewer.values import Fields, fields_of, is_present, items_of, text_of
from rollgym.viewer.view import FIELD_TEXT_LIMIT, Field, Section, Text

MOST_FIELDS = 200
VERIFIER, TASK, VERIFIER_AND_TASK = "Verifier", "Task", "Verifier and task"
SAMPLING, TOOLS, METADATA_TITLE, RESPONSE_TITLE = "Sampling", "Tools", "Metadata", "Response"
_VERDICTS = frozenset((VERIFIER, VERIFIER_AND_TASK))
_COMPARED_UP_TO = 65_536
_CONVERSATION = frozenset(("input", "instructions", "tools"))
_ATTEMPT = ("attempt", "final", "started", "seconds", FAILURE_TERMINAL)
_SHOWN_OF_RESPONSE = ("id", "status", "incomplete_details", "error", "usage")
_ELSEWHERE = frozenset(
    (
        PARAMS,
        OUTPUT,
        RESPONSE,
        REWARD,
        SUCCESS,
        METADATA,
        TASK_INDEX,
        ROLLOUT_INDEX,
        FAILURE,
        FAILURE_CLASS,
        NO_PERSIST,
        STORED_ROLLOUTS,
    )
)


def sections_of(
    row: Fields, asked: Mapping[str, msgspec.Raw] | None, *, conversation: str
) -> tuple[Section, ...]:
    """The sections of a row that have something to say, in order.

    `asked` is the task's input row, `conversation` the field that the turns are read from.
    """
    elsewhere = _ELSEWHERE | {conversation}
    own = {name: raw for name, raw in row.items() if name not in elsewhere}
    about_attempt = {name: own.pop(name) for name in _ATTEMPT if name in own and FAILURE in row}
    judged = {name: row[name] for name in (REWARD, SUCCESS) if name in row}
    params = fields_of(row.get(PARAMS)) or {}
    metadata = fields_of(row.get(METADATA))
    told = {name: raw for name, raw in (metadata or {}).items() if name != "spans"}
    added = own if asked is None else {n: raw for n, raw in own.items() if _is_new(raw, asked, n)}
    kept = {name: raw for name, raw in own.items() if name not in added}
    drawn = [
        (
            VERIFIER_AND_TASK if asked is None and own else VERIFIER,
            _fields(judged | added, ""),
            False,
        ),
        (TASK, _fields(kept, ""), False),
        (SAMPLING, _sampling(row, params), False),
        (TOOLS, _tools(params), True),
        (METADATA_TITLE, [*_fields(told, f"/{METADATA}"), *_fields(about_attempt, "")], False),
        (RESPONSE_TITLE, _response(row), True),
    ]
    if metadata is None and is_present(row.get(METADATA)):
        drawn[4] = (METADATA_TITLE, _fields({METADATA: row[METADATA]}, ""), False)
    return tuple(
        Section(title, tuple(fields), folded, verdict=title in _VERDICTS)
        for title, fields, folded in drawn
        if fields
    )


def field_of(name: str, raw: msgspec.Raw, path: str) -> Field:
    """A value with its name: a text as it is, everything else as JSON."""
    text = string_text(raw, FIELD_TEXT_LIMIT, path)
    if text is None:
        return Field(short(name), json_text(raw, FIELD_TEXT_LIMIT, path), is_json=True)
    return Field(short(name), text)


def _fields(fields: Fields, base: str) -> list[Field]:
    shown = [
        field_of(name, raw, child(base, name)) for name, raw in list(fields.items())[:MOST_FIELDS]
    ]
    return [*shown, *_left_out(len(fields), base)]


def _is_new(raw: msgspec.Raw, asked: Mapping[str, msgspec.Raw], name: str) -> bool:
    """Whether the input row does not say it. Long values are compared as they are written."""
    before = asked.get(name)
    if before is None:
        return True
    if max(len(raw), len(before)) > _COMPARED_UP_TO:
        return memoryview(raw) != memoryview(before)
    return not same_value(before, raw)


def _sampling(row: Fields, params: Fields) -> list[Field]:
    told = {name: raw for name, raw in params.items() if name not in _CONVERSATION}
    fields = _fields(told, f"/{PARAMS}")
    model = response_facts(row).model
    if not is_present(params.get("model")) and is_present(model):
        fields.insert(0, field_of("model", model, f"/{RESPONSE}/model"))
    return fields


def _tools(params: Fields) -> list[Field]:
    base = f"/{PARAMS}/tools"
    tools = items_of(params.get("tools")) or []
    shown = [
        Field(
            _tool_name(raw) or str(index),
            json_text(raw, FIELD_TEXT_LIMIT, child(base, index)),
            True,
        )
        for index, raw in enumerate(tools[:MOST_FIELDS])
    ]
    return [*shown, *_left_out(len(tools), base)]


def _tool_name(raw: msgspec.Raw) -> str:
    """Where Responses has it, or where chat does."""
    tool = fields_of(raw) or {}
    function = fields_of(tool.get("function")) or {}
    return short(text_of(tool.get("name")) or text_of(function.get("name")))


def _response(row: Fields) -> list[Field]:
    facts = response_facts(row)
    told = {name: getattr(facts, name) for name in _SHOWN_OF_RESPONSE}
    return _fields({name: raw for name, raw in told.items() if is_present(raw)}, f"/{RESPONSE}")


def _left_out(number: int, path: str) -> Iterator[Field]:
    if number > MOST_FIELDS:
        text = f"{number - MOST_FIELDS} more are in the raw JSON"
        yield Field("…", Text(text, len(text), path))
