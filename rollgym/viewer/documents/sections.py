"""What a row says beside its conversation: failure, token usage, and fields under headings.

A row mixes the fields of its task with those that the verifier added. Where the task's input row is
known, a field with the same value there belongs to the task. Otherwise both are shown together.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from rollgym.records import TRAITS, ModelUse
from rollgym.records.decoding import decode_json
from rollgym.records.sign import sign_meaning
from rollgym.rollouts import rows
from rollgym.rollouts.output_row import same_value
from rollgym.viewer.documents.texts import child, json_text, short, string_text
from rollgym.viewer.summary import RecordSummary
from rollgym.viewer.values import (
    Fields,
    count_of,
    fields_of,
    flag_of,
    is_present,
    items_of,
    text_of,
)
from rollgym.viewer.view import (
    FIELD_TEXT_LIMIT,
    FailureView,
    FieldView,
    SectionView,
    SignView,
    Text,
)

FAILURE = "failure"
MOST_CAUSES = 20
_CAUSE_LIMIT = 1_000
_MEANINGS = {str(kind): traits.meaning for kind, traits in TRAITS.items()}


def meaning_of(kind: str) -> str:
    """What a kind of failure means; empty for an unknown kind."""
    return _MEANINGS.get(kind, "")


def failure_of(row: Fields) -> FailureView | None:
    """The failure of a row; None where it has none."""
    failure = fields_of(row.get(FAILURE))
    named = text_of(row.get(rows.FAILURE_CLASS))
    if failure is None and named is None:
        return None
    failure = failure or {}
    kind = text_of(failure.get("kind")) or named or ""
    return FailureView(
        kind=short(kind),
        detail=_text(failure, "detail") or Text("", 0),
        meaning=meaning_of(kind),
        retryable=flag_of(failure.get("retryable")),
        causes=_causes(failure.get("causes")),
        traceback=_text(failure, "traceback"),
        place=_place(failure),
    )


def signs_of_summary(summary: RecordSummary) -> tuple[SignView, ...]:
    """The signs that a rollout deserves a look."""
    found = summary.signs.items()
    return tuple(SignView(name, sign_meaning(name), number) for name, number in found)


def _place(failure: Fields) -> str:
    file, line = text_of(failure.get("file")), count_of(failure.get("line"))
    return f"{short(file, _CAUSE_LIMIT)}:{line}" if file and line is not None else ""


def _text(failure: Fields, name: str) -> Text | None:
    raw, path = failure.get(name), child(f"/{FAILURE}", name)
    if raw is None or not is_present(raw):
        return None
    return string_text(raw, FIELD_TEXT_LIMIT, path) or json_text(raw, FIELD_TEXT_LIMIT, path)


def _causes(raw: msgspec.Raw | None) -> tuple[tuple[str, str], ...]:
    causes = [fields_of(cause) or {} for cause in (items_of(raw) or ())[:MOST_CAUSES]]
    return tuple(
        (short(text_of(cause.get("type"))), short(text_of(cause.get("message")), _CAUSE_LIMIT))
        for cause in causes
    )


_TOKEN_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "total_tokens",
)
_WITHIN = {
    "cached_tokens": "input_tokens_details",
    "reasoning_tokens": "output_tokens_details",
}


def usage_of(row: Fields) -> dict[str, int]:
    """Token counts from the metadata if it has any, else from the response."""
    return _counts(rows.own_metadata(row)) or _counts(fields_of(row.get(rows.RESPONSE)))


def _counts(holder: Fields | None) -> dict[str, int]:
    """The counts in the `usage` of an object."""
    usage = fields_of((holder or {}).get("usage")) or {}
    counts = {name: _count(usage, name) for name in _TOKEN_COUNTS}
    known = {name: count for name, count in counts.items() if count is not None}
    return known if any(known.values()) else {}


def _count(usage: Fields, name: str) -> int | None:
    if name in usage or name not in _WITHIN:
        return count_of(usage.get(name))
    return count_of((fields_of(usage.get(_WITHIN[name])) or {}).get(name))


MOST_FIELDS = 200
VERIFIER, TASK, VERIFIER_AND_TASK = "Verifier", "Task", "Verifier and task"
SAMPLING, TOOLS, METADATA_TITLE, RESPONSE_TITLE = "Sampling", "Tools", "Metadata", "Response"
MODELS_TITLE = "Calls of models"
_VERDICTS = frozenset((VERIFIER, VERIFIER_AND_TASK))
_COMPARED_UP_TO = 65_536
_CONVERSATION = frozenset(("input", "instructions", "tools"))
_ATTEMPT = ("attempt", "final", "started", "seconds", rows.FAILURE_TERMINAL)
_SHOWN_OF_RESPONSE = ("id", "status", "incomplete_details", "error", "usage")
_ELSEWHERE = frozenset((
    rows.PARAMS, rows.OUTPUT, rows.RESPONSE, rows.REWARD, rows.SUCCESS, rows.METADATA,
    rows.TASK_INDEX, rows.ROLLOUT_INDEX, rows.FAILURE_CLASS, rows.NO_PERSIST, rows.STORED_ROLLOUTS,
    rows.OWN_OUTPUT, rows.TURNS, rows.TOKENS, FAILURE,
))  # fmt: skip


def sections_of(
    row: Fields, asked: Mapping[str, msgspec.Raw] | None, *, conversation: str
) -> tuple[SectionView, ...]:
    """The sections of a row that are not empty, in order.

    `asked` is the task's input row, `conversation` the field that the turns are read from.
    """
    elsewhere = _ELSEWHERE | {conversation}
    if rows.OWN_OUTPUT in row:  # then `output` is a field of the task or of the verifier
        elsewhere -= {rows.OUTPUT}
    own = {name: raw for name, raw in row.items() if name not in elsewhere}
    about_attempt = {name: own.pop(name) for name in _ATTEMPT if name in own and FAILURE in row}
    judged = {name: row[name] for name in (rows.REWARD, rows.SUCCESS) if name in row}
    params = fields_of(row.get(rows.PARAMS)) or {}
    metadata = fields_of(row.get(rows.METADATA))
    shown = {name: raw for name, raw in (metadata or {}).items() if name not in ("spans", "models")}
    added = own if asked is None else {n: raw for n, raw in own.items() if _is_new(raw, asked, n)}
    kept = {name: raw for name, raw in own.items() if name not in added}
    drawn = [
        (
            VERIFIER_AND_TASK if asked is None and own else VERIFIER,
            _fields(judged | added, ""),
            False,
        ),
        (TASK, _fields(kept, ""), False),
        (MODELS_TITLE, model_fields(_models_of(row)), False),
        (SAMPLING, _sampling(row, params), False),
        (TOOLS, _tools(params), True),
        (
            METADATA_TITLE,
            [*_fields(shown, f"/{rows.METADATA}"), *_fields(about_attempt, "")],
            False,
        ),
        (RESPONSE_TITLE, _response(row), True),
    ]
    if metadata is None and is_present(row.get(rows.METADATA)):
        drawn[5] = (METADATA_TITLE, _fields({rows.METADATA: row[rows.METADATA]}, ""), False)
    return tuple(
        SectionView(title, tuple(fields), folded, verdict=title in _VERDICTS)
        for title, fields, folded in drawn
        if fields
    )


def model_fields(uses: Iterable[ModelUse]) -> list[FieldView]:
    """A line for each model that was called."""
    lines = ((use.name, use.describe()) for use in uses)
    return [FieldView(short(name), Text(line, len(line))) for name, line in lines]


def _models_of(row: Fields) -> tuple[ModelUse, ...]:
    raw = (rows.own_metadata(row) or {}).get("models")
    try:
        return decode_json(raw, tuple[ModelUse, ...]) if raw is not None else ()
    except msgspec.DecodeError:  # of another program
        return ()


def field_of(name: str, raw: msgspec.Raw, path: str) -> FieldView:
    """A named value: a text as it is, everything else as JSON."""
    text = string_text(raw, FIELD_TEXT_LIMIT, path)
    if text is None:
        return FieldView(short(name), json_text(raw, FIELD_TEXT_LIMIT, path), is_json=True)
    return FieldView(short(name), text)


def _fields(fields: Fields, base: str) -> list[FieldView]:
    shown = [
        field_of(name, raw, child(base, name)) for name, raw in list(fields.items())[:MOST_FIELDS]
    ]
    return [*shown, *_left_out(len(fields), base)]


def _is_new(raw: msgspec.Raw, asked: Mapping[str, msgspec.Raw], name: str) -> bool:
    """Whether the input row has another value. Long values are compared as bytes."""
    before = asked.get(name)
    if before is None:
        return True
    if max(len(raw), len(before)) > _COMPARED_UP_TO:
        return memoryview(raw) != memoryview(before)
    return not same_value(before, raw)


def _sampling(row: Fields, params: Fields) -> list[FieldView]:
    shown = {name: raw for name, raw in params.items() if name not in _CONVERSATION}
    fields = _fields(shown, f"/{rows.PARAMS}")
    model = (fields_of(row.get(rows.RESPONSE)) or {}).get("model")
    if not is_present(params.get("model")) and model is not None and is_present(model):
        fields.insert(0, field_of("model", model, f"/{rows.RESPONSE}/model"))
    return fields


def _tools(params: Fields) -> list[FieldView]:
    base = f"/{rows.PARAMS}/tools"
    tools = items_of(params.get("tools")) or []
    shown = [
        FieldView(
            _tool_name(raw) or str(index),
            json_text(raw, FIELD_TEXT_LIMIT, child(base, index)),
            True,
        )
        for index, raw in enumerate(tools[:MOST_FIELDS])
    ]
    return [*shown, *_left_out(len(tools), base)]


def _tool_name(raw: msgspec.Raw) -> str:
    """The name of a tool, in the form of the Responses API or of chat."""
    tool = fields_of(raw) or {}
    function = fields_of(tool.get("function")) or {}
    return short(text_of(tool.get("name")) or text_of(function.get("name")))


def _response(row: Fields) -> list[FieldView]:
    response = fields_of(row.get(rows.RESPONSE)) or {}
    shown = {name: response[name] for name in _SHOWN_OF_RESPONSE if is_present(response.get(name))}
    return _fields(shown, f"/{rows.RESPONSE}")


def _left_out(number: int, path: str) -> Iterator[FieldView]:
    if number > MOST_FIELDS:
        text = f"{number - MOST_FIELDS} more are in the raw JSON"
        yield FieldView("…", Text(text, len(text), path))
