"""The rows that a collection writes, for completed rollouts and for failed attempts.

The journal keeps only the fields of a rollout that its input row does not have. The functions here,
and no others, combine the two into output rows.
"""

from collections.abc import Mapping
from typing import Any, Self, TypedDict

import msgspec

from rollgym.records import DOLLAR, NO_USAGE, Attempt, Completed, Failed, Row, Task, Usage
from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.records.sign import signs_among
from rollgym.records.usage import to_microsecond
from rollgym.records.version import PolicyTurn, turns_by_version
from rollgym.rollouts import rows
from rollgym.servers.responses import Response, chat_transcript

SCORE = "verification_score"
_WRITTEN = frozenset(
    (
        *(rows.REWARD, rows.SUCCESS, rows.METADATA, rows.TASK_INDEX, rows.ROLLOUT_INDEX),
        *(rows.OWN_OUTPUT, rows.OWN_METADATA),
    )
)
_COUNTS = ("tool_errors", "tool_calls_rejected", "tool_calls_from_text")
_STOPPED_BY = "stopped_by"
_INPUT_ONLY = frozenset((rows.PARAMS, rows.AGENT, rows.TASK_INDEX, rows.ROLLOUT_INDEX))
_FIELDS = JsonDecoder(dict[str, msgspec.Raw])


class _Read(TypedDict, total=False):
    """The fields of a response that are read for its row, and for the metrics its usage."""

    output: Any
    metadata: Any
    usage: msgspec.Raw


_READ: JsonDecoder[dict[str, Any]] = JsonDecoder(_Read)


class RecordedResult(msgspec.Struct, frozen=True):
    """The fields of a recorded result, and those of its response that are read."""

    fields: Mapping[str, msgspec.Raw]
    response: dict[str, Any]

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        fields: dict[str, msgspec.Raw] = _FIELDS.decode(attempt.outcome.result)
        response = fields.get(rows.RESPONSE)
        return cls(fields, {} if response is None else _READ.decode(response))


def added_fields(sent: Row, answered: Row) -> dict[str, msgspec.Raw]:
    """The fields of a verified row that the row which was sent does not have.

    A verifier may write an input field in another form (`1` for `1.0`, other spaces): that is the
    same value, and is not kept twice. It cannot change the task and its parameters.
    """
    given = sent.fields
    return {
        name: raw
        for name, raw in answered.fields.items()
        if name not in _INPUT_ONLY and not (name in given and same_value(given[name], raw))
    }


def output_row(
    task: Task,
    attempt: Attempt,
    seeds: rows.RepeatSeeds | None = None,
    result: RecordedResult | None = None,
) -> Row:
    """The row of a completed rollout: its input row and its results.

    `result` is its recorded result, for a caller that has it.
    """
    outcome = attempt.outcome
    if not isinstance(outcome, Completed):
        raise TypeError(f"{attempt.key} is not completed")
    row, changes = _changes(task, attempt.repeat, seeds)
    recorded = result or RecordedResult.of(attempt)
    added, response = dict(recorded.fields), Response.of(recorded.response)
    raw_response = added.pop(rows.RESPONSE, None)
    transcript = chat_transcript(response.output)
    has_output = rows.OUTPUT in row.fields or rows.OUTPUT in added
    numbers = _numbers(attempt, outcome, added, transcript) | _notes(response.raw)
    if signs := signs_among(outcome.measures):
        numbers[rows.SIGNS] = signs
    fields: dict[str, Any] = {
        **changes,
        rows.OWN_OUTPUT if has_output else rows.OUTPUT: transcript,
        rows.REWARD: outcome.reward,
        rows.SUCCESS: outcome.succeeded,
        **_metadata(row.fields, added, numbers),
    }
    if raw_response is not None:
        fields[rows.RESPONSE] = raw_response
    # Those of an earlier collection do not belong to this response.
    if not row.fields.keys().isdisjoint(rows.KEPT):
        fields |= {name: None for name in rows.KEPT if name in row.fields}
    for name, raw in added.items():
        if name not in _WRITTEN:
            fields[name] = raw
    fields |= _turns(outcome)
    return row.with_fields({**fields, rows.TASK_INDEX: task.index})


def failure_row(task: Task, attempt: Attempt) -> Row:
    """The row of a failed attempt: its key, its failure, and the recorded interaction."""
    outcome = attempt.outcome
    if not isinstance(outcome, Failed):
        raise TypeError(f"{attempt.key} did not fail")
    failure = outcome.failure
    row, number = rows.rollout_row(task, attempt.repeat)
    partial = _FIELDS.decode(outcome.result) if outcome.result else {}
    agent = row.fields.get(rows.AGENT)
    spent = _times(outcome) if outcome.phases else {}
    if outcome.usage != NO_USAGE:
        spent |= _tokens(outcome)
    partial |= {
        name: msgspec.Raw(msgspec.json.encode(kept)) for name, kept in _turns(outcome).items()
    }
    fields: dict[str, Any] = {
        rows.TASK_INDEX: attempt.task,
        rows.ROLLOUT_INDEX: number,
        "attempt": attempt.attempt,
        "final": attempt.final,
        **({} if agent is None else {rows.AGENT: agent}),
        rows.FAILURE_CLASS: _failure_class(partial) or str(failure.kind),
        rows.FAILURE_TERMINAL: not failure.retryable,
        "failure": failure,
        "started": attempt.started,
        "seconds": attempt.seconds,
        **(_metadata({}, partial, spent) if spent else {}),
    }
    return Row.of({**fields, **{name: raw for name, raw in partial.items() if name not in fields}})


def input_row(task: Task, repeat: int, seeds: rows.RepeatSeeds | None = None) -> Row:
    """The row of one rollout as its agent gets it.

    `seeds` are the sampling seeds of a run that adds some.
    """
    row, changes = _changes(task, repeat, seeds)
    return row.with_fields(changes)


def _changes(task: Task, repeat: int, seeds: rows.RepeatSeeds | None) -> tuple[Row, dict[str, Any]]:
    """The row of a task, and the fields that one of its rollouts changes."""
    row, number = rows.rollout_row(task, repeat)
    changes: dict[str, Any] = {rows.ROLLOUT_INDEX: number}
    if seeds is not None:
        changes[rows.PARAMS] = seeds.params(row, number)
    return row, changes


def measures_of(response: Response, usage: Usage) -> dict[str, float]:
    """The numbers of a rollout that are averaged while it runs.

    The length of the response is in tokens, and unknown where the model does not count them.
    """
    kinds = [item.get("type") for item in response.output]
    measures = {"tool_calls": float(kinds.count("function_call"))}
    if usage.output_tokens:
        measures["response_length"] = float(usage.output_tokens)
    return measures


def _numbers(
    attempt: Attempt,
    outcome: Completed,
    added: dict[str, msgspec.Raw],
    transcript: list[dict[str, Any]],
) -> dict[str, Any]:
    """Our part of the metadata of a completed rollout."""
    steps = calls = 0
    for entry in transcript:
        steps += entry["role"] == "assistant"
        calls += len(entry.get("tool_calls", ()))
    return {
        "reasoning_steps": steps,
        "tool_calls_made": calls,
        "verification_score": _score(added, outcome.reward),
        "attempts": attempt.attempt,
        "started": attempt.started,
        "seconds": to_microsecond(attempt.seconds),
        **_times(outcome),
        **_tokens(outcome),
        **_versions(outcome),
    }


def _notes(response: Mapping[str, Any]) -> dict[str, Any]:
    """What an agent says about its episode in the metadata of the response, a map of strings."""
    metadata = response.get(rows.METADATA)
    if not metadata or not isinstance(metadata, dict):
        return {}
    notes: dict[str, Any] = {
        name: int(text)
        for name in _COUNTS
        if isinstance(text := metadata.get(name), str) and text.isdecimal()
    }
    if isinstance(stopped_by := metadata.get(_STOPPED_BY), str):
        notes[_STOPPED_BY] = stopped_by
    return notes


def _metadata(
    sent: Mapping[str, msgspec.Raw], added: Mapping[str, msgspec.Raw], ours: dict[str, Any]
) -> dict[str, Any]:
    """The metadata of the input row and of the verifier, whose keys win, with ours beside it."""
    if rows.METADATA not in sent and rows.METADATA not in added:  # the usual case
        return {rows.METADATA: ours}
    given = [raw for raw in (sent.get(rows.METADATA), added.get(rows.METADATA)) if _is_given(raw)]
    objects = [rows.object_fields(raw) for raw in given]
    theirs: dict[str, msgspec.Raw] = {}
    for fields in objects:
        theirs |= fields or {}
    if rows.MOVED in theirs or None in objects:
        return {rows.METADATA: given[-1] if None in objects else theirs, rows.OWN_METADATA: ours}
    return rows.metadata_fields(theirs, ours)


def _is_given(raw: msgspec.Raw | None) -> bool:
    return raw is not None and bytes(raw) != b"null"


def _times(outcome: Completed | Failed) -> dict[str, Any]:
    """The seconds of each phase, and the spans of the calls."""
    timings = {phase: to_microsecond(seconds) for phase, seconds in outcome.phases.items()}
    return {"timings": timings, "spans": outcome.spans}


def _tokens(outcome: Completed | Failed) -> dict[str, Any]:
    """The tokens of the policy, the calls of each model, and the cost where there are prices."""
    usage = outcome.usage
    spent: dict[str, Any] = {
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        }
    }
    if outcome.models:
        spent["models"] = outcome.models
        if [use for use in outcome.models if use.cost is not None]:
            spent["cost_usd"] = outcome.cost / DOLLAR
    return spent


def _turns(outcome: Completed | Failed) -> dict[str, Any]:
    """The turns of the policy, where the version of one is known."""
    turns = outcome.turns
    return {rows.TURNS: turns} if turns and any(map(_has_version, turns)) else {}


def _versions(outcome: Completed) -> dict[str, Any]:
    """How many turns each policy version sampled; a turn of two counts for both."""
    if not outcome.turns:  # the usual case: no versions are known
        return {}
    counts = turns_by_version(outcome.turns)
    return {rows.VERSIONS: counts} if counts else {}


def _has_version(turn: PolicyTurn) -> bool:
    return any(turn.versions)


def _score(added: dict[str, msgspec.Raw], reward: float) -> float:
    """The score of the verifier where it gives one, else the reward."""
    try:
        score = decode_json(added[SCORE]) if SCORE in added else None
    except msgspec.DecodeError:  # a number that is out of range
        score = None
    return score if isinstance(score, int | float) and not isinstance(score, bool) else reward


def _failure_class(partial: dict[str, msgspec.Raw]) -> str | None:
    raw = partial.get(rows.FAILURE_CLASS)
    named = None if raw is None else decode_json(raw)
    return named if isinstance(named, str) else None


def same_value(one: msgspec.Raw | None, other: msgspec.Raw) -> bool:
    """Whether two pieces of JSON have the same value, in any form."""
    if one is None:
        return False
    if one == other:
        return True
    try:
        return _equal(decode_json(one), decode_json(other))
    except (msgspec.DecodeError, RecursionError):  # a number that is out of range, for example
        return False


def _equal(one: object, other: object) -> bool:
    """As values of JSON, where `true` is not 1."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_equal(one[n], other[n]) for n in one)
        case list(), list():
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(_equal(*pair) for pair in pairs)
        case _:
            return isinstance(one, bool) == isinstance(other, bool) and one == other
