"""How much the pages of a session have moved, and how much they may in one step."""

from collections.abc import Callable

from webgym.browser.guard.socks import Target


class Traffic:
    """Counts bytes for all connections of a session. They do so for every piece that passes.

    So the fields are open: whoever moves a piece adds its size, compares the sum with `limit`, and
    calls `overflow` with its target when it is passed.
    """

    __slots__ = ("_step_bytes", "limit", "overflow", "received", "sent")

    def __init__(self, step_bytes: int, overflow: Callable[[Target], None]) -> None:
        self._step_bytes = step_bytes
        self.received = 0
        self.sent = 0
        self.limit = step_bytes
        self.overflow = overflow

    def begin_step(self) -> None:
        self.limit = self.received + self.sent + self._step_bytes

    @property
    def overflown(self) -> bool:
        return self.received + self.sent > self.limit
