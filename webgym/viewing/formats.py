"""The two formats of web rollouts, and what the index keeps of a record in either.

*Journals.* Each line is an attempt whose result is a trajectory.

*`.pt` files.* Each record is the pickled fragment of one trajectory. A fragment holds plain
containers only; it is checked before it is decoded and cannot run code. Documents read its JSON.

As in the metrics of an iteration, a rollout that a page blocked is neither a success nor a failure
to succeed: its success is unknown.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollgym.monitor import printable_line
from rollgym.records import (
    NO_USAGE,
    Attempt,
    Completed,
    Failed,
    Omitted,
    Row,
    decode_attempt,
)
from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.records.version import turns_by_version
from rollgym.viewer.documents.conversation import with_versions
from rollgym.viewer.formats.facts import cause_of, task_facts
from rollgym.viewer.source import DocumentContext, FactsOf, RecordFormat, RecordRange
from rollgym.viewer.summary import (
    DETAIL_LIMIT,
    FIELD_LIMIT,
    EntryStatus,
    RecordSummary,
    Scalar,
)
from rollgym.viewer.values import Fields, fields_of, text_of
from rollgym.viewer.view import RolloutDocument
from webgym.trajectory.plain import failed_to_plain, from_plain, to_plain
from webgym.trajectory.records import ANSWER, BLOCKED, INVALID_URL, UNPARSED, Trajectory
from webgym.trajectory.torch_archive import decode
from webgym.trajectory.torch_file import TorchFile
from webgym.viewing.document import TrajectoryDocument
from webgym.viewing.records import (
    COMPLETED,
    FAILED,
    JOURNAL_NAMES,
    OMITTED,
    PLAIN_NAMES,
    AttemptRecord,
    PlainRecord,
    RawSteps,
    StepSummaries,
    TrajectoryRecord,
)

_STATUSES = {
    COMPLETED: EntryStatus.COMPLETED,
    FAILED: EntryStatus.FAILED,
    OMITTED: EntryStatus.OMITTED,
}
_NO_ACTIONS = frozenset((UNPARSED, BLOCKED, INVALID_URL))
"""Keys of steps without an action of the agent."""


def summarise(attempt: AttemptRecord[StepSummaries], facts_of: FactsOf) -> RecordSummary:
    """Summarise an attempt. Raises ValueError for an unknown outcome."""
    outcome, trajectory = attempt.outcome, attempt.trajectory
    if outcome.status not in _STATUSES:
        raise ValueError(f"unknown outcome {outcome.status!r:.60}")
    steps = trajectory.steps or ()
    keys = Counter(step.action.key for step in steps if step.action)
    failure, usage = outcome.failure, outcome.usage
    is_blocked = any(step.reward is not None and step.reward.is_blocked for step in steps)
    row = fields_of(trajectory.task) or {}
    versions = turns_by_version(
        outcome.turns or [step.response.turn for step in steps if step.response]
    )
    return RecordSummary(
        status=_STATUSES[outcome.status] if attempt.final else EntryStatus.RETRIED,
        task=attempt.task,
        repeat=attempt.repeat,
        attempt=attempt.attempt,
        reward=outcome.reward,
        success=None if is_blocked else outcome.succeeded,
        kind=failure.kind if failure else "",
        cause=cause_of(failure.detail) if failure else "",
        steps=len(steps),
        tool_calls=sum(count for key, count in keys.items() if key not in _NO_ACTIONS),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        seconds=attempt.seconds,
        started=attempt.started,
        model=trajectory.model,
        ending=trajectory.ending,
        facts=facts_of(attempt.task) or task_facts(row),
        detail=printable_line(_detail(attempt, steps), DETAIL_LIMIT),
        tools=dict(keys),
        versions=versions,
        fields=with_versions(_fields(trajectory, row, is_blocked=is_blocked), versions),
    )


def _detail(attempt: AttemptRecord[StepSummaries], steps: StepSummaries) -> str:
    if attempt.outcome.failure is not None:
        return attempt.outcome.failure.detail
    last = steps[-1].action if steps else None
    answer = fields_of(last.arguments) or {} if last is not None and last.key == ANSWER else {}
    return attempt.outcome.why or text_of(answer.get("text")) or ""


def _fields(
    trajectory: TrajectoryRecord[StepSummaries], row: Fields, *, is_blocked: bool
) -> dict[str, Scalar]:
    texts = {
        "task_id": trajectory.task_id,
        "subdomain": text_of(row.get("subdomain")) or "",
        "split": trajectory.split,
        "interaction_mode": trajectory.interaction_mode,
    }
    fields: dict[str, Scalar] = {
        name: printable_line(text, FIELD_LIMIT) for name, text in texts.items() if text
    }
    return fields | {"is_blocked": is_blocked}


_JOURNAL_SUMMARY = JsonDecoder(AttemptRecord[StepSummaries])
_JOURNAL_STEPS = JsonDecoder(AttemptRecord[RawSteps])
_TRAJECTORY = JsonDecoder(Trajectory)


class TrajectoryFormat(RecordFormat):
    """A journal of web rollouts, one attempt on each line."""

    name = "web journal"

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        """Raises ValueError."""
        return summarise(_JOURNAL_SUMMARY.decode(record), facts_of)

    def document(self, record: bytes, context: DocumentContext) -> RolloutDocument:
        """Raises ValueError."""
        return TrajectoryDocument(
            record,
            _JOURNAL_STEPS.decode(record),
            JOURNAL_NAMES,
            self.summary(record, context.facts),
            lambda: plain_of(record, context),
            size=len(record),
            has_images=context.images is not None,
        )


TRAJECTORIES = TrajectoryFormat()


def plain_of(record: bytes, context: DocumentContext) -> dict[str, Any]:
    """The plain form of an attempt's trajectory. Raises ValueError."""
    attempt = decode_attempt(record)
    trajectory = _trajectory(attempt, context)
    match attempt.outcome:
        case Completed(reward=reward):
            return to_plain(trajectory, reward)
        case Failed(failure=failure):
            return failed_to_plain(trajectory, failure)
        case Omitted():
            return to_plain(trajectory) | {"outcome": OMITTED, "reward": None}


def _trajectory(attempt: Attempt, context: DocumentContext) -> Trajectory:
    """The trajectory as far as it was recorded; at least its task."""
    row = context.input_row(attempt.task) or Row(b"{}")
    trajectory = Trajectory(task_id=str(attempt.task), task=msgspec.Raw(row.raw))
    if bytes(attempt.outcome.result):
        trajectory = _TRAJECTORY.decode(attempt.outcome.result)
    return msgspec.structs.replace(
        trajectory.with_versions(attempt.outcome.turns),
        trajectory_index=attempt.task,
        repeat=attempt.repeat,
        attempt=attempt.attempt,
    )


_TORCH_SUMMARY = JsonDecoder(PlainRecord[StepSummaries])
_TORCH_STEPS = JsonDecoder(PlainRecord[RawSteps])


class TorchFormat(RecordFormat):
    """A `.pt` file, one trajectory in each record."""

    name = "trajectories"
    by_lines = False

    def places(self, path: Path) -> Iterator[RecordRange]:
        """Raises TorchFileError, StorageError."""
        with TorchFile(path) as file:
            for position, length in file.places():
                yield RecordRange(position, length)

    def summary(self, record: bytes, facts_of: FactsOf) -> RecordSummary:
        """Raises ValueError."""
        return _torch_summary(json_of(record), facts_of)

    def document(self, record: bytes, context: DocumentContext) -> RolloutDocument:
        """Raises ValueError."""
        json = json_of(record)
        return TrajectoryDocument(
            json,
            _TORCH_STEPS.decode(json).as_attempt(NO_USAGE),
            PLAIN_NAMES,
            _torch_summary(json, context.facts),
            lambda: _plain(json),
            size=len(record),
            has_images=context.images is not None,
        )


TORCH = TorchFormat()


def json_of(fragment: bytes) -> bytes:
    """A trajectory as JSON. Raises ValueError if the fragment is not one."""
    try:
        return msgspec.json.encode(decode(fragment))
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the trajectory cannot be written as JSON: {error}") from error


def _torch_summary(json: bytes, facts_of: FactsOf) -> RecordSummary:
    record = _TORCH_SUMMARY.decode(json)
    usages = (step.response.usage for step in record.steps or () if step.response)
    return summarise(record.as_attempt(sum(usages, NO_USAGE)), facts_of)


def _plain(json: bytes) -> dict[str, Any]:
    """Raises TrajectoryError."""
    plain: dict[str, Any] = decode_json(json)
    from_plain(plain)
    return plain
