"""The two formats of rollgym: files of rows, and journals.

*Rows.* The `*.jsonl` files of a collection hold rollouts, failures or inputs. Each row is
classified by its own fields, so one format reads all three kinds of files, and rows of other
programs. A row with a failure is failed or retried. A row with a reward or a success is completed.
A row with a conversation and neither of them is completed too, with an unknown reward and success.
A row with none of these is a task that was not run.

*Journals.* A journal has every attempt at every rollout of a run. It keeps only the fields that the
input row does not have, so the task facts come from the run's inputs. The result of an attempt is
what its worker returned: the `response` of an agent, an `output`, or an object of another shape, of
which only short values are kept.
"""

from rollgym.records import Attempt, Completed, Failed, Omitted, Outcome, Usage, decode_attempt
from rollgym.records.sign import signs_among
from rollgym.records.version import turns_by_version
from rollgym.rollouts import rows
from rollgym.rollouts.signs import signs_in_row
from rollgym.viewer.documents.conversation import MESSAGES, policy_turns, with_versions
from rollgym.viewer.documents.journal_document import JournalDocument
from rollgym.viewer.documents.row_document import RowDocument
from rollgym.viewer.documents.sections import FAILURE
from rollgym.viewer.formats.facts import (
    DIFFICULTY,
    DOMAIN,
    NO_CONVERSATION,
    QUESTIONS,
    RolloutResult,
    cause_of,
    task_facts,
)
from rollgym.viewer.source import DocumentContext, FactsOf, RecordFormat
from rollgym.viewer.summary import (
    DETAIL_LIMIT,
    MOST_FIELDS,
    EntryStatus,
    RecordSummary,
    Scalar,
    TaskFacts,
)
from rollgym.viewer.values import (
    Fields,
    count_of,
    either,
    fields_of,
    fields_of_record,
    flag_of,
    items_of,
    number_of,
    one_line,
    short_scalars,
    text_of,
)
from rollgym.viewer.view import RolloutDocument

_KNOWN_ROW = frozenset((
    rows.PARAMS, rows.AGENT, rows.TASK_INDEX, rows.ROLLOUT_INDEX, rows.OUTPUT, rows.RESPONSE,
    rows.REWARD, rows.SUCCESS, rows.METADATA, rows.FAILURE_CLASS, rows.FAILURE_TERMINAL, FAILURE,
    rows.OWN_OUTPUT, rows.OWN_METADATA, rows.TURNS, rows.TOKENS,
    "final", "attempt", "started", "seconds", MESSAGES, DOMAIN, DIFFICULTY, *QUESTIONS,
))  # fmt: skip
_KNOWN_METADATA = frozenset((
    "reasoning_steps", "steps", "tool_calls_made", "attempts", "attempt", "seconds", "started",
    "model", "ending",
))  # fmt: skip


class RolloutsFormat(RecordFormat):
    """A file of rows, one on each line."""

    name = "rollouts"

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        """Raises ValueError if the record is not a JSON object."""
        fields = fields_of_record(record)
        result = RolloutResult.of(fields)
        status = _row_status(fields, result)
        failure = fields_of(fields.get(FAILURE)) or {}
        failed = status in (EntryStatus.FAILED, EntryStatus.RETRIED)
        versions = turns_by_version(policy_turns(fields))
        kind = text_of(fields.get(rows.FAILURE_CLASS)) or text_of(failure.get("kind"))
        message = text_of(failure.get("detail")) or text_of(fields.get(FAILURE)) or ""
        task = count_of(fields.get(rows.TASK_INDEX))
        params = fields_of(fields.get(rows.PARAMS)) or {}
        return RecordSummary(
            status=status,
            task=task,
            repeat=count_of(fields.get(rows.ROLLOUT_INDEX)),
            attempt=either(count_of(fields.get("attempt")), result.attempt),
            reward=None if failed else number_of(fields.get(rows.REWARD)),
            success=None if failed else _success(fields),
            kind=kind or "unknown" if failed else "",
            cause=cause_of(message) if failed else "",
            steps=result.steps,
            tool_calls=result.tool_calls,
            input_tokens=result.input_tokens,
            output_tokens=result.output_tokens,
            seconds=either(result.seconds, number_of(fields.get("seconds"))),
            started=either(result.started, number_of(fields.get("started"))),
            model=result.model or text_of(params.get("model")) or "",
            ending=result.ending,
            facts=_facts(fields, task, facts_of),
            detail=one_line(message if failed else result.conversation.final_text, DETAIL_LIMIT),
            tools=result.conversation.tools,
            signs=_row_signs(fields, result) if status is EntryStatus.COMPLETED else {},
            versions=versions,
            fields=with_versions(_row_fields(fields, result), versions),
        )

    def document(self, record: bytes, context: DocumentContext) -> RolloutDocument:
        """Raises ValueError."""
        return RowDocument(record, context, self.summary(record, context.facts))


ROLLOUTS = RolloutsFormat()


def _row_status(fields: Fields, result: RolloutResult) -> EntryStatus:
    failure = fields.get(FAILURE)
    if fields_of(failure) or text_of(failure) or text_of(fields.get(rows.FAILURE_CLASS)):
        return EntryStatus.RETRIED if flag_of(fields.get("final")) is False else EntryStatus.FAILED
    has_result = result.conversation is not NO_CONVERSATION or fields_of(fields.get(rows.RESPONSE))
    if has_result or _success(fields) is not None:
        return EntryStatus.COMPLETED
    return EntryStatus.INPUT


def _success(fields: Fields) -> bool | None:
    reward, success = number_of(fields.get(rows.REWARD)), flag_of(fields.get(rows.SUCCESS))
    return success if reward is None else Completed(reward, success).succeeded


def _facts(fields: Fields, task: int | None, facts_of: FactsOf) -> TaskFacts:
    facts = task_facts(fields)
    if facts.key or task is None:
        return facts
    return facts_of(task) or facts


def _row_signs(fields: Fields, result: RolloutResult) -> dict[str, int]:
    """The signs that a collection noted in the row, or that a row of another program shows."""
    if "attempts" in result.metadata:
        noted = items_of(result.metadata.get(rows.SIGNS)) or []
        return {
            sign.value: count_of(result.metadata.get(sign.value)) or 1
            for sign in signs_among(list(filter(None, map(text_of, noted))))
        }
    found = signs_in_row(fields, success=bool(_success(fields)))
    return {name: int(number) for name, number in found.items()}


def _row_fields(fields: Fields, result: RolloutResult) -> dict[str, Scalar]:
    """The last `MOST_FIELDS` short fields: the verifier's fields follow the task's."""
    found = short_scalars(result.metadata, _KNOWN_METADATA) | short_scalars(fields, _KNOWN_ROW)
    return dict(list(found.items())[-MOST_FIELDS:])


_KNOWN_RESULT = frozenset(
    (rows.OUTPUT, rows.RESPONSE, rows.REWARD, rows.SUCCESS, rows.METADATA, MESSAGES, *QUESTIONS)
)
_STEPS = "steps"
_TOOL_CALLS = "tool_calls"


class JournalFormat(RecordFormat):
    """A journal of a run, one attempt on each line."""

    name = "journal"

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        """Raises ValueError if the record is not an attempt."""
        attempt = decode_attempt(record)
        outcome = attempt.outcome
        given = fields_of(outcome.result) or {}
        result = RolloutResult.of(given)
        measures = outcome.measures if isinstance(outcome, Completed) else {}
        into, out = _tokens(outcome.usage, result)
        versions = turns_by_version(outcome.turns)
        return RecordSummary(
            status=_attempt_status(attempt),
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
            facts=facts_of(attempt.task) or task_facts(given),
            detail=one_line(_detail(outcome, result.conversation.final_text), DETAIL_LIMIT),
            tools=result.conversation.tools,
            signs={sign.value: int(measures[sign]) for sign in signs_among(measures)},
            versions=versions,
            fields=with_versions(_attempt_fields(given, measures), versions),
        )

    def document(self, record: bytes, context: DocumentContext) -> RolloutDocument:
        """Raises ValueError."""
        return JournalDocument(record, context, self.summary(record, context.facts))


JOURNAL = JournalFormat()


def _attempt_status(attempt: Attempt) -> EntryStatus:
    if not attempt.final:
        return EntryStatus.RETRIED
    match attempt.outcome:
        case Completed():
            return EntryStatus.COMPLETED
        case Failed():
            return EntryStatus.FAILED
        case Omitted():
            return EntryStatus.OMITTED


def _measured(measures: dict[str, float], name: str) -> int | None:
    """A count that the worker measured, if it is a valid one."""
    measured = measures.get(name)
    return int(measured) if measured is not None and 0 <= measured < 1e15 else None


def _tokens(usage: Usage, result: RolloutResult) -> tuple[int | None, int | None]:
    """Input and output tokens. Zeros mean that they were not counted."""
    if usage.input_tokens or usage.output_tokens:
        return usage.input_tokens, usage.output_tokens
    return result.input_tokens, result.output_tokens


def _detail(outcome: Outcome, final_text: str) -> str:
    match outcome:
        case Completed():
            return final_text
        case Failed(failure=failure):
            return failure.detail
        case Omitted(detail=detail, reason=reason):
            return detail or reason.value


def _attempt_fields(given: Fields, measures: dict[str, float]) -> dict[str, Scalar]:
    """The other measures and the short fields of the result; at most the last `MOST_FIELDS`."""
    elsewhere = {_STEPS, _TOOL_CALLS, *signs_among(measures)}
    found: dict[str, Scalar] = {
        name: value for name, value in measures.items() if name not in elsewhere
    }
    found |= short_scalars(given, _KNOWN_RESULT)
    return dict(list(found.items())[-MOST_FIELDS:])
