"""The connections that a page asked for and did not get."""

import msgspec


class Missed(msgspec.Struct, frozen=True):
    """One target that was not reached, and why. The host `*`: before it was asked which."""

    host: str
    port: int
    reason: str


class MissedLog:
    """The latest of them. A page that asks for the same again and again fills one place."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._missed: dict[Missed, None] = {}

    def note(self, missed: Missed) -> None:
        self._missed.pop(missed, None)
        self._missed[missed] = None
        if len(self._missed) > self._size:
            del self._missed[next(iter(self._missed))]

    def seen(self) -> list[Missed]:
        return list(self._missed)

    def take(self) -> list[Missed]:
        """All that were noted since the last time, oldest first."""
        taken = list(self._missed)
        self._missed.clear()
        return taken
