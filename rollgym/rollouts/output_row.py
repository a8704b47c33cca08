"""The rows that a collection writes, for completed rollouts and for failed attempts.

The journal keeps only the fields of a rollout that its input row does not have. The functions here,
and no others, combine the two into output rows.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from rollgym.records import Attempt, Completed, Failed, Row, Task, Usage
from rollgym.rollouts import rows
from rollgym.servers.responses import Response, chat_transcript

SCORE = "verification_score"
_WRITTEN = frozenset(
    (rows.OUTPUT, rows.REWARD, rows.SUCCESS, rows.METADATA, rows.TASK_INDEX, rows.ROLLOUT_INDEX)
)
_INPUT_ONLY = frozenset((rows.PARAMS, rows.AGENT, rows.TASK_INDEX, rows.ROLLOUT_INDEX))
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def added_fields(sent: Row, answered: Row) -> dict[str, msgspec.Raw]:
    """The fields of a verified row that the row which was sent does not have.

    A verifier may write an input field in another form (`1` for `1.0`, other spaces): that is the
    same value, and is not kept twice. It cannot change the task and its parameters.
    """
    return {
        name: raw
        for name, raw in answered.fields.items()
        if name not in _INPUT_ONLY and not same_value(sent.fields.get(name), raw)
    }


def output_row(task: Task, attempt: Attempt, first_seed: int | None = None) -> Row:
    """The row of a completed rollout: its input row and its results."""
    outcome = attempt.outcome
    if not isinstance(outcome, Completed):
        raise TypeError(f"{attempt.key} is not completed")
    row, changes = _changes(task, attempt.repeat, first_seed)
    added = _FIELDS.decode(outcome.result)
    raw_response = added.pop(rows.RESPONSE, None)
    response = Response.of(_OBJECT.decode(raw_response) if raw_response else {})
    transcript = chat_transcript(response.output)
    fields: dict[str, Any] = {
        **changes,
        rows.OUTPUT: transcript,
        rows.REWARD: outcome.reward,
        rows.SUCCESS: outcome.succeeded,
        rows.METADATA: _metadata(row, attempt, outcome, added, transcript),
    }
    if raw_response is not None:
        fields[rows.RESPONSE] = raw_response
    fields |= {name: raw for name, raw in added.items() if name not in _WRITTEN}
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
        **({rows.METADATA: _metadata_of(partial) | _times(outcome)} if outcome.phases else {}),
    }
    return Row.of({**fields, **{name: raw for name, raw in partial.items() if name not in fields}})


def input_row(task: Task, repeat: int, first_seed: int | None = None) -> Row:
    """The row of one rollout as its agent gets it.

    `first_seed` is the sampling seed of the first repeat; every further one has one more.
    """
    row, changes = _changes(task, repeat, first_seed)
    return row.with_fields(changes)


def _changes(task: Task, repeat: int, first_seed: int | None) -> tuple[Row, dict[str, Any]]:
    """The row of a task, and the fields that one of its rollouts changes."""
    row, number = rows.rollout_row(task, repeat)
    changes: dict[str, Any] = {rows.ROLLOUT_INDEX: number}
    if first_seed is not None:
        params = Row(bytes(row.fields[rows.PARAMS])).with_fields({rows.SEED: first_seed + number})
        changes[rows.PARAMS] = msgspec.Raw(params.raw)
    return row, changes


def measures_of(response: Response, usage: Usage) -> dict[str, float]:
    """The numbers of a rollout that are averaged while it runs.

    The length of the response is in tokens, and unknown where the model does not count them.
    """
    measures = {"tool_calls": float(len(response.function_calls))}
    if usage.output_tokens:
        measures["response_length"] = float(usage.output_tokens)
    return measures


def _metadata(
    row: Row,
    attempt: Attempt,
    outcome: Completed,
    added: dict[str, msgspec.Raw],
    transcript: list[dict[str, Any]],
) -> dict[str, Any]:
    """Our numbers, beside the metadata of the input row and of the verifier."""
    usage = outcome.usage
    return {
        **_metadata_of(row.fields),
        **_metadata_of(added),
        "reasoning_steps": sum(entry["role"] == "assistant" for entry in transcript),
        "tool_calls_made": sum(len(entry.get("tool_calls", ())) for entry in transcript),
        "verification_score": _score(added, outcome.reward),
        "attempts": attempt.attempt,
        "started": attempt.started,
        "seconds": round(attempt.seconds, 6),
        **_times(outcome),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        },
    }


def _metadata_of(fields: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """The metadata among these fields, where it is an object."""
    raw = fields.get(rows.METADATA)
    return _FIELDS.decode(raw) if raw is not None and bytes(raw).startswith(b"{") else {}


def _times(outcome: Completed | Failed) -> dict[str, Any]:
    """The seconds of each phase, and the spans of the calls."""
    timings = {phase: round(seconds, 6) for phase, seconds in outcome.phases.items()}
    return {"timings": timings, "spans": outcome.spans}


def _score(added: dict[str, msgspec.Raw], reward: float) -> float:
    """The score of the verifier where it gives one, else the reward."""
    try:
        score = msgspec.json.decode(added[SCORE]) if SCORE in added else None
    except msgspec.DecodeError:  # a number that is out of range
        score = None
    return score if isinstance(score, int | float) and not isinstance(score, bool) else reward


def _failure_class(partial: dict[str, msgspec.Raw]) -> str | None:
    raw = partial.get(rows.FAILURE_CLASS)
    named = None if raw is None else msgspec.json.decode(raw)
    return named if isinstance(named, str) else None


def same_value(one: msgspec.Raw | None, other: msgspec.Raw) -> bool:
    """Whether two pieces of JSON have the same value, in any form."""
    if one is None:
        return False
    if bytes(one) == bytes(other):
        return True
    try:
        return _equal(msgspec.json.decode(one), msgspec.json.decode(other))
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
