"""Records of journals: every attempt at every rollout of a run.

A journal keeps of a rollout only what its input row does not say, so what is known of its task
comes from the inputs of the run. The result of an attempt is whatever its worker gave: the
`response` of an agent, an `output`, or something else, of which only short values are known.
"""

from collections.abc import Iterator
from pathlib import Path

from rollgym.records import Attempt, Completed, Failed, Omitted, Outcome, Usage, decode_attempt
from rollgym.rollouts.fields import METADATA, OUTPUT, RESPONSE, REWARD, SUCCESS
from rollgym.viewer.documents.journal_document import JournalDocument
from rollgym.viewer.formats.cause import cause_of
from rollgym.viewer.formats.facts import MESSAGES, QUESTIONS, facts_of_fields
from rollgym.viewer.formats.result import Result
from rollgym.viewer.formats.scalars import either, one_line, short_scalars
from rollgym.viewer.source import Context, FactsOf, Place
from rollgym.viewer.summary import DETAIL_LIMIT, MOST_FIELDS, Scalar, Status, Summary
from rollgym.viewer.values import Fields, fields_of
from rollgym.viewer.view import Document

_KNOWN = frozenset((OUTPUT, RESPONSE, REWARD, SUCCESS, METADATA, MESSAGES, *QUESTIONS))
_STEPS = "steps"
_TOOL_CALLS = "tool_calls"


class JournalFormat:
    """A journal of a run, one attempt on each line."""

    name = "journal"
    by_lines = True

    def places(self, path: Path) -> Iterator[Place]:
        """There are none to tell: the lines are the records."""
        return iter(())

    def summary(self, record: bytes, facts_of: FactsOf) -> Summary:
        """Raises ValueError for what is no record of an attempt."""
        attempt = decode_attempt(record)
        outcome = attempt.outcome
        given = fields_of(outcome.result) or {}
        result = Result.of(given)
        measures = _measures(outcome)
        into, out = _tokens(outcome.usage, result)
        return Summary(
            status=_status(attempt),
            task=attempt.task,
            repeat=attempt.repeat,
            attempt=attempt.attempt,
            reward=outcome.reward if isinstance(outcome, Completed) else None,
            success=outcome.succeeded if isinstance(outcome, Completed) else None,
            kind=outcome.failure.kind.value if isinstance(outcome, Failed) else "",
            cause=cause_of(outcome.failure.detail) if isinstance(outcome, Failed) else "",
            steps=either(_measured(measures, _STEPS), result.steps),
            tool_calls=either(_measured(measures, _TOOL_CALLS), result.tool_calls),
            input_tokens=into,
            output_tokens=out,
            seconds=attempt.seconds,
            started=attempt.started,
            model=result.model,
            ending=outcome.reason.value if isinstance(outcome, Omitted) else result.ending,
            facts=facts_of(attempt.task) or facts_of_fields(given),
            detail=one_line(_detail(outcome, result.last_words), DETAIL_LIMIT),
            tools=result.tools,
            fields=_short(given, measures),
        )

    def document(self, record: bytes, context: Context) -> Document:
        """Raises ValueError."""
        return JournalDocument(record, context, self.summary(record, context.facts))


JOURNAL = JournalFormat()


def _status(attempt: Attempt) -> Status:
    if not attempt.final:
        return Status.RETRIED
    match attempt.outcome:
        case Completed():
            return Status.COMPLETED
        case Failed():
            return Status.FAILED
        case Omitted():
            return Status.OMITTED


def _measures(outcome: Outcome) -> dict[str, float]:
    return outcome.measures if isinstance(outcome, Completed) else {}


def _measured(measures: dict[str, float], name: str) -> int | None:
    """A count that the worker gave, if it can be one."""
    measured = measures.get(name)
    return int(measured) if measured is not None and 0 <= measured < 1e15 else None


def _tokens(usage: Usage, result: Result) -> tuple[int | None, int | None]:
    """Nothing counted is not known: no model takes no tokens."""
    if usage.input_tokens or usage.output_tokens:
        return usage.input_tokens, usage.output_tokens
    return result.numbers.input_tokens, result.numbers.output_tokens


def _detail(outcome: Outcome, last_words: str) -> str:
    match outcome:
        case Completed():
            return last_words
        case Failed(failure=failure):
            return failure.detail
        case Omitted(detail=detail, reason=reason):
            return detail or reason.value


def _short(given: Fields, measures: dict[str, float]) -> dict[str, Scalar]:
    """The other measures, and what the verifier added; of too many the last ones."""
    found: dict[str, Scalar] = {
        name: value for name, value in measures.items() if name not in (_STEPS, _TOOL_CALLS)
    }
    found |= short_scalars(given, _KNOWN)
    return dict(list(found.items())[-MOST_FIELDS:])
