"""Rows of rollouts, of failures and of inputs: what `*.jsonl` files of a collection hold.

Each row is looked at for what it is, so one format reads all three files, and rows that other
programs wrote. A row with a failure failed, or was tried again. One with a reward or a success is
completed; so is one that has a conversation and neither, but then nothing is made up: its reward
and its success are unknown. A row with none of these is a task that was not run.
"""

from collections.abc import Iterator
from pathlib import Path

from rollgym.records import Completed
from rollgym.rollouts.fields import (
    AGENT,
    FAILURE_CLASS,
    FAILURE_TERMINAL,
    METADATA,
    OUTPUT,
    PARAMS,
    RESPONSE,
    REWARD,
    ROLLOUT_INDEX,
    SUCCESS,
    TASK_INDEX,
)
from rollgym.viewer.documents.failures import FAILURE
from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.formats.cause import cause_of
from rollgym.viewer.formats.facts import (
    DIFFICULTY,
    DOMAIN,
    MESSAGES,
    QUESTIONS,
    facts_of_fields,
)
from rollgym.viewer.formats.result import Result
from rollgym.viewer.formats.scalars import either, one_line, short_scalars
from rollgym.viewer.source import Context, FactsOf, Place
from rollgym.viewer.summary import (
    DETAIL_LIMIT,
    MOST_FIELDS,
    Scalar,
    Status,
    Summary,
    TaskFacts,
)
from rollgym.viewer.values import (
    Fields,
    count_of,
    fields_of,
    fields_of_record,
    flag_of,
    number_of,
    text_of,
)
from rollgym.viewer.view import Document

_KNOWN = frozenset((
    PARAMS, AGENT, TASK_INDEX, ROLLOUT_INDEX, OUTPUT, RESPONSE, REWARD, SUCCESS, METADATA,
    FAILURE, FAILURE_CLASS, FAILURE_TERMINAL, "final", "attempt", "started", "seconds",
    MESSAGES, DOMAIN, DIFFICULTY, *QUESTIONS,
))  # fmt: skip
_KNOWN_METADATA = frozenset((
    "reasoning_steps", "steps", "tool_calls_made", "attempts", "attempt", "seconds", "started",
    "model", "ending",
))  # fmt: skip


class RolloutsFormat:
    """A file of rows, one on each line."""

    name = "rollouts"
    by_lines = True

    def places(self, path: Path) -> Iterator[Place]:
        """There are none to tell: the lines are the records."""
        return iter(())

    def summary(self, record: bytes, facts_of: FactsOf) -> Summary:
        """Raises ValueError for what is no JSON object."""
        fields = fields_of_record(record)
        result = Result.of(fields)
        status = _status(fields, result)
        numbers = result.numbers
        failure = fields_of(fields.get(FAILURE)) or {}
        failed = status in (Status.FAILED, Status.RETRIED)
        message = text_of(failure.get("detail")) or text_of(fields.get(FAILURE)) or ""
        task = count_of(fields.get(TASK_INDEX))
        return Summary(
            status=status,
            task=task,
            repeat=count_of(fields.get(ROLLOUT_INDEX)),
            attempt=either(count_of(fields.get("attempt")), numbers.attempt),
            reward=None if failed else number_of(fields.get(REWARD)),
            success=None if failed else _success(fields),
            kind=_kind(fields, failure) if failed else "",
            cause=cause_of(message) if failed else "",
            steps=result.steps,
            tool_calls=result.tool_calls,
            input_tokens=numbers.input_tokens,
            output_tokens=numbers.output_tokens,
            seconds=either(numbers.seconds, number_of(fields.get("seconds"))),
            started=either(numbers.started, number_of(fields.get("started"))),
            model=result.model or text_of((fields_of(fields.get(PARAMS)) or {}).get("model")) or "",
            ending=result.ending,
            facts=_facts(fields, task, facts_of),
            detail=one_line(message if failed else result.last_words, DETAIL_LIMIT),
            tools=result.tools,
            fields=_short(fields, result),
        )

    def document(self, record: bytes, context: Context) -> Document:
        """Raises ValueError."""
        return RowDocument(record, context, self.summary(record, context.facts))


ROLLOUTS = RolloutsFormat()


def _status(fields: Fields, result: Result) -> Status:
    failure = fields.get(FAILURE)
    if fields_of(failure) or text_of(failure) or text_of(fields.get(FAILURE_CLASS)):
        return Status.RETRIED if flag_of(fields.get("final")) is False else Status.FAILED
    if number_of(fields.get(REWARD)) is not None or flag_of(fields.get(SUCCESS)) is not None:
        return Status.COMPLETED
    if result.conversation is not None or fields_of(fields.get(RESPONSE)):
        return Status.COMPLETED
    return Status.INPUT


def _success(fields: Fields) -> bool | None:
    reward, success = number_of(fields.get(REWARD)), flag_of(fields.get(SUCCESS))
    return success if reward is None else Completed(reward, success).succeeded


def _kind(fields: Fields, failure: Fields) -> str:
    return text_of(fields.get(FAILURE_CLASS)) or text_of(failure.get("kind")) or "unknown"


def _facts(fields: Fields, task: int | None, facts_of: FactsOf) -> TaskFacts:
    facts = facts_of_fields(fields)
    if facts.key or task is None:
        return facts
    return facts_of(task) or facts


def _short(fields: Fields, result: Result) -> dict[str, Scalar]:
    """Of too many the last ones: what the verifier adds stands after what the task brought."""
    found = short_scalars(result.metadata, _KNOWN_METADATA) | short_scalars(fields, _KNOWN)
    return dict(list(found.items())[-MOST_FIELDS:])
