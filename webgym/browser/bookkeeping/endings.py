"""Why sessions ended, remembered for as long as somebody may still ask.

An identifier is never used again, so what is said here about one stays true. The memory is bounded:
of the oldest it is only known that they are no sessions.
"""

from collections import OrderedDict

MEMORY = 10_000
SHOWN = 8


class Endings:
    """The sessions that ended, the latest last."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._reasons: OrderedDict[str, str] = OrderedDict()
        self._memory = memory

    def __len__(self) -> int:
        return len(self._reasons)

    def __contains__(self, instance_id: str) -> bool:
        return instance_id in self._reasons

    def remember(self, instance_id: str, reason: str) -> None:
        """The first reason stays."""
        if instance_id in self._reasons:
            return
        self._reasons[instance_id] = reason
        if len(self._reasons) > self._memory:
            self._reasons.popitem(last=False)

    def reason(self, instance_id: str) -> str | None:
        return self._reasons.get(instance_id)


def lost_message(instance_id: str, reason: str) -> str:
    """What a client is told; enough of the identifier to find it in a log."""
    return f"session {shown_id(instance_id)} is lost: {reason}"


def no_such_session(instance_id: str) -> str:
    return f"no such session on this node: {instance_id[:60]!r}"


def shown_id(instance_id: str) -> str:
    return f"{instance_id[:SHOWN]}…" if len(instance_id) > SHOWN else instance_id
