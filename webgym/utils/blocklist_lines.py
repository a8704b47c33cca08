"""The lines of a blocklist, and what they amount to.

    {"domain": "shop.example", "expires": "2026-05-01T12:00:00Z", "reason": "blocks us"}
    {"domain": "shop.example", "seen": 3, "blocked": 1, "at": 1767225600.0}

The first is an entry: it holds until it expires, or for good without `expires`. The second is what
was observed, and counts for some hours. An entry ends the counting of what was observed before it,
so that a domain gets its chance again when the entry has expired.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import msgspec

_SLOTS = 64
"""Observations of about the same time are counted together: this many times within the hours."""

Domain = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class Line(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """An observation where it has `seen`, else an entry. Times are in seconds since 1970, UTC."""

    domain: Domain
    expires: float | datetime | None = None
    reason: str = ""
    seen: Count | None = None
    blocked: Count = 0
    at: float = 0.0

    def lasts(self, now: float) -> bool:
        """Whether the entry holds. A time without a zone is UTC."""
        match self.expires:
            case None:
                return True
            case datetime(tzinfo=None) as moment:
                return moment.replace(tzinfo=UTC).timestamp() > now
            case datetime() as moment:
                return moment.timestamp() > now
            case seconds:
                return seconds > now


_DECODER = msgspec.json.Decoder(Line)


def read_line(text: bytes) -> Line:
    """Raises ValueError."""
    return _DECODER.decode(text)


def written(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def entry(domain: str, expires: float, reason: str) -> Line:
    return Line(domain=domain, expires=datetime.fromtimestamp(expires, UTC), reason=reason)


def plain_domain(host: str) -> str:
    """As tasks name their hosts: in lower case, without `www.`."""
    return host.strip().lower().removeprefix("www.")


class Standing:
    """What the lines read so far amount to, at the time `now`."""

    def __init__(self, hours: float, now: float) -> None:
        self._now = now
        self._slot = hours * 3600 / _SLOTS
        self._entries: dict[str, Line] = {}
        self._observed: dict[str, dict[int, tuple[int, int]]] = {}

    def add(self, line: Line) -> None:
        domain = plain_domain(line.domain)
        if line.seen is None:
            self._observed.pop(domain, None)
            self._entries[domain] = line
        elif line.at > self._now - _SLOTS * self._slot:
            slots = self._observed.setdefault(domain, {})
            seen, blocked = slots.get(slot := int(line.at // self._slot), (0, 0))
            slots[slot] = (seen + line.seen, blocked + min(line.blocked, line.seen))

    def tally(self, domain: str) -> tuple[int, int]:
        """How often the domain was seen since its last entry, and how often it blocked."""
        slots = self._observed.get(domain, {}).values()
        return sum(seen for seen, _ in slots), sum(blocked for _, blocked in slots)

    @property
    def blocked(self) -> frozenset[str]:
        return frozenset(name for name, line in self._entries.items() if line.lasts(self._now))

    def lines(self) -> Iterator[Line]:
        """The fewest lines that amount to the same."""
        yield from (line for line in self._entries.values() if line.lasts(self._now))
        for domain, slots in self._observed.items():
            for slot, (seen, blocked) in slots.items():
                # The end of the slot: no observation is forgotten before its time.
                at = (slot + 1) * self._slot - 0.001
                yield Line(domain=domain, seen=seen, blocked=blocked, at=at)
