"""What the blocklist learns from: completed rollouts, and whether they met a wall.

An observer, so that a rollout is on disk before anything is learnt from it, and a blocklist that
cannot be written costs no rollout. Tasks of the bundled sites teach nothing: all these sites have
one address, and the one that blocks everybody must not take the others along.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from rollgym.engine import AttemptRecorded, Event
from rollgym.records import Attempt, Completed
from rollgym.store import StorageError, TaskLookup
from webgym.episode.settings import SITES
from webgym.tasks import WebTask
from webgym.trajectory import BLOCKED

_LOGGER = logging.getLogger("webgym.episode")


class Blocking(Protocol):
    """Learns which domains block us."""

    def observe(self, host: str, blocked: bool) -> object:
        """Raises StorageError where it cannot keep that."""


class BlocklistTeacher:
    """Tells a blocklist what the rollouts of `tasks` met."""

    name = "blocklist"

    def __init__(self, blocking: Blocking, tasks: TaskLookup) -> None:
        self._blocking = blocking
        self._tasks = tasks

    def observe(self, events: Sequence[Event]) -> None:
        """Take in what was recorded."""
        for event in events:
            match event:
                case AttemptRecorded(attempt=Attempt(outcome=Completed() as outcome) as attempt):
                    host = WebTask.of(self._tasks.task(attempt.task).row, "").host
                    if host != SITES:
                        self._tell(host, blocked=outcome.measures[BLOCKED] > 0)

    def _tell(self, host: str, *, blocked: bool) -> None:
        try:
            self._blocking.observe(host, blocked)
        except StorageError as error:
            _LOGGER.warning("nothing is learnt about whether %s blocks us: %s", host, error)
