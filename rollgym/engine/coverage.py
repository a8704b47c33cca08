"""What a collection came to: the arithmetic that always adds up, and the exit status."""

from enum import IntEnum

import msgspec


class ExitStatus(IntEnum):
    """How a command that collects ends.

    1 and 2 keep their usual meanings, a crash and a wrong use of the command.
    """

    COMPLETE = 0
    FAILED = 3
    OMITTED = 4
    INTERRUPTED = 5
    REFUSED = 6
    STORAGE = 7


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """Of `expected` rollouts, how many have which outcome on disk.

    `resumed` of them were there before. `attempts` were recorded by this collection. A group is
    complete when every repeat of its task is completed. `abandoned` workers ignored their
    cancellation; `dropped_events` never reached a slow or broken observer.
    """

    expected: int
    completed: int
    failed: int
    omitted: int
    groups: int
    groups_complete: int
    resumed: int
    attempts: int
    abandoned: int
    dropped_events: dict[str, int]

    @property
    def unresolved(self) -> int:
        return self.expected - self.completed - self.failed - self.omitted

    @property
    def exit_status(self) -> ExitStatus:
        if self.unresolved:
            return ExitStatus.INTERRUPTED
        if self.failed:
            return ExitStatus.FAILED
        return ExitStatus.OMITTED if self.omitted else ExitStatus.COMPLETE

    def __str__(self) -> str:
        return (
            f"{self.expected} expected = {self.completed} completed + {self.failed} failed + "
            f"{self.omitted} omitted + {self.unresolved} unresolved"
        )

    def groups_in_words(self) -> str:
        return f"{self.groups_complete} of {self.groups} groups complete"
