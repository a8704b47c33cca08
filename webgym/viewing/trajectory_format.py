"""Journals of web rollouts: each line an attempt, whose result is a trajectory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import Attempt, Completed, Failed, Omitted, Row, decode_attempt
from rollgym.viewer.source import Context, FactsOf, Place
from rollgym.viewer.summary import Summary
from rollgym.viewer.view import Document
from webgym.trajectory.plain import failed_to_plain, to_plain
from webgym.trajectory.trajectory import Trajectory
from webgym.viewing.document import TrajectoryDocument
from webgym.viewing.records import JOURNAL_NAMES, OMITTED, Glances, JournalRecord, RawSteps
from webgym.viewing.summary import summarise

_GLANCES = msgspec.json.Decoder(JournalRecord[Glances])
_STEPS = msgspec.json.Decoder(JournalRecord[RawSteps])
_TRAJECTORY = msgspec.json.Decoder(Trajectory)


class TrajectoryFormat:
    """A `Format`."""

    name = "web journal"
    by_lines = True

    def places(self, path: Path) -> Iterator[Place]:
        """Nobody asks: each line is a record."""
        raise NotImplementedError(f"{path} has a record on each line")

    def summary(self, record: bytes, facts_of: FactsOf) -> Summary:
        """Raises ValueError."""
        return summarise(_GLANCES.decode(record).account, facts_of)

    def document(self, record: bytes, context: Context) -> Document:
        """Raises ValueError."""
        return TrajectoryDocument(
            record,
            _STEPS.decode(record).account,
            JOURNAL_NAMES,
            self.summary(record, context.facts),
            lambda: plain_of(record, context),
            size=len(record),
            has_images=context.images is not None,
        )


TRAJECTORIES = TrajectoryFormat()


def plain_of(record: bytes, context: Context) -> dict[str, Any]:
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


def _trajectory(attempt: Attempt, context: Context) -> Trajectory:
    """As much as there is; of a rollout that left nothing, its task."""
    row = context.input_row(attempt.task) or Row(b"{}")
    trajectory = Trajectory(task_id=str(attempt.task), task=msgspec.Raw(row.raw))
    if bytes(attempt.outcome.result):
        trajectory = _TRAJECTORY.decode(attempt.outcome.result)
    return msgspec.structs.replace(
        trajectory,
        trajectory_index=attempt.task,
        repeat=attempt.repeat,
        attempt=attempt.attempt,
    )
