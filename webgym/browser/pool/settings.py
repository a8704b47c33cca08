"""How many browsers there are, and when one is no longer good enough."""

import math

import msgspec

GIB = 2**30


class PoolSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The bounds of a pool. Durations are seconds, memory is bytes."""

    capacity: int = 16
    """Sessions at the same time, over all browsers."""
    sessions_per_browser: int = 16
    longest_age: float = 3_600.0
    """A browser older than this is recycled: it gets no new sessions and ends with its last."""
    most_sessions: int = 500
    """A browser that has opened so many is recycled."""
    browser_memory: int = 4 * GIB
    """A browser that holds more is recycled; at twice as much its largest page is ended."""
    renderer_memory: int = 3 * GIB // 2
    """A page's process that holds more is ended."""
    drain_patience: float = 3_600.0
    """How long the sessions of a browser that is being recycled may go on."""
    ping_interval: float = 2.0
    ping_patience: float = 6.0
    """A browser that does not answer for so long hangs, and is killed."""
    memory_interval: float = 1.0
    launch_patience: float = 20.0
    """How long a browser may take to start."""
    close_patience: float = 10.0
    """How long a session may take to close; its browser is recycled if it takes longer."""

    def __post_init__(self) -> None:
        wrong = [
            name
            for name in self.__struct_fields__
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0)
        ]
        if wrong:
            raise ValueError(f"these must be greater than 0: {', '.join(wrong)}")

    @property
    def most_browsers(self) -> int:
        """Browsers that take new sessions, at the same time."""
        return -(-self.capacity // self.sessions_per_browser)

    @property
    def spare_room(self) -> int:
        """When there is room for fewer new sessions than this, the next browser is started."""
        return max(1, self.sessions_per_browser // 8)
