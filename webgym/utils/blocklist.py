"""The blocklist: domains that block the agent, learned from the rollouts there.

It is one JSONL file, shared by all ranks and iterations of a folder; people may write to it too:

    {"domain": "shop.example", "expires": "2026-05-01T12:00:00Z", "reason": "blocks us"}
    {"domain": "shop.example", "seen": 3, "blocked": 1, "at": 1767225600.0}

The first line is an entry: training tasks of its domain are excluded until it expires, or for good
without `expires`. The second is an observation, which counts for some hours. When the observations
of a domain reach the rule, an entry is written. An entry ends the counting of earlier observations,
so a domain gets another chance when its entry has expired.

The file is appended to under a lock, a single write each time. Now and then, and when it is opened,
lines that no longer count are removed: the others go to a new file, which replaces the old one
while the lock is held; a process that waited for the old file opens the new one. An incomplete last
line of a killed process is reported and cut off. Every call may wait for other processes for a
moment: from an event loop, call it in a thread.
"""

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Protocol

import msgspec
from pydantic import Field

from rollgym.engine import AttemptRecorded, Event
from rollgym.numbers import Count, Positive, Share
from rollgym.records import Attempt, Completed
from rollgym.records.decoding import JsonDecoder
from rollgym.store import Disk, RefusedError, StorageError, TaskLookup
from rollgym.store.disk import make_directory, write_all, write_atomically
from rollgym.store.errors import storage_errors
from webgym.settings import SettingsSection
from webgym.tasks.task import SITES, WebTask
from webgym.trajectory.records import BLOCKED

_SLOTS = 64
"""Observations are counted in this number of time slots within the hours of the rule."""

Domain = Annotated[str, msgspec.Meta(min_length=1)]
Tally = Annotated[int, msgspec.Meta(ge=0)]


class BlocklistLine(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """An observation where it has `seen`, else an entry. Times are seconds since 1970, UTC."""

    domain: Domain
    expires: float | datetime | None = None
    reason: str = ""
    seen: Tally | None = None
    blocked: Tally = 0
    at: float = 0.0

    def lasts(self, now: float) -> bool:
        """Whether the entry has not expired. A time without a zone is UTC."""
        match self.expires:
            case None:
                return True
            case datetime(tzinfo=None) as moment:
                return moment.replace(tzinfo=UTC).timestamp() > now
            case datetime() as moment:
                return moment.timestamp() > now
            case seconds:
                return seconds > now


_DECODER = JsonDecoder(BlocklistLine)


def read_line(text: bytes) -> BlocklistLine:
    """Raises ValueError."""
    return _DECODER.decode(text)


def written(line: BlocklistLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def entry(domain: str, expires: float, reason: str) -> BlocklistLine:
    return BlocklistLine(domain=domain, expires=datetime.fromtimestamp(expires, UTC), reason=reason)


def plain_domain(host: str) -> str:
    """A host as tasks name it: in lower case, without `www.`."""
    return host.strip().lower().removeprefix("www.")


class BlocklistState:
    """The entries and observations of the lines read so far, at the time `now`."""

    def __init__(self, hours: float, now: float) -> None:
        self._now = now
        self._slot = hours * 3600 / _SLOTS
        self._entries: dict[str, BlocklistLine] = {}
        self._observed: dict[str, dict[int, tuple[int, int]]] = {}

    def add(self, line: BlocklistLine) -> None:
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

    def lines(self) -> Iterator[BlocklistLine]:
        """The fewest lines with the same meaning."""
        yield from (line for line in self._entries.values() if line.lasts(self._now))
        for domain, slots in self._observed.items():
            for slot, (seen, blocked) in slots.items():
                # The end of the slot: no observation is dropped too early.
                at = (slot + 1) * self._slot - 0.001
                yield BlocklistLine(domain=domain, seen=seen, blocked=blocked, at=at)


LOCK_TIMEOUT = 10.0
"""Seconds to wait for other processes that write the file."""
_POLL = 0.005
_SMALL = 1 << 16
_LOG = logging.getLogger(__name__)


class BlocklistError(RefusedError):
    """The file has a line that is neither an entry nor an observation."""


class BlocklistSettings(SettingsSection):
    """Which domains training avoids, and for how long.

    A domain is blocked when of at least `observations` a share of `threshold` was blocked.
    Observations count, and entries last, for `expiry_hours`.
    """

    observations: Count = Field(
        default=3, description="trajectories at a domain that are needed to block it"
    )
    threshold: Share = Field(
        default=0.5, description="share of these trajectories that must have been blocked"
    )
    expiry_hours: Positive = Field(
        default=12.0, description="hours for which a domain stays blocked"
    )


class Blocklist:
    """The blocklist of a folder. Usable from several threads and processes."""

    def __init__(
        self,
        path: str | Path,
        rule: BlocklistSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        disk: Disk | None = None,
    ) -> None:
        """Opens the file, or makes it. Raises BlocklistError with file and line, StorageError."""
        self.path = path = Path(path)
        self.rule = rule or BlocklistSettings()
        self._clock = clock
        self._disk = disk or Disk()
        self._room = 0
        with storage_errors(path, "opening the blocklist"):
            make_directory(self._disk, path.parent)
        with self._locked() as file:
            content = _content(file)
            state = self._state(content, strict=True)
            self._compact(state, unless=content)

    def blocked_domains(self) -> frozenset[str]:
        """The domains that are blocked now, by any process. Raises StorageError."""
        with self._locked() as file:
            return self._state(_content(file)).blocked

    def observe(self, host: str, blocked: bool) -> bool:
        """Record the observation of a rollout; True where it made an entry. Raises StorageError."""
        domain, now = plain_domain(host), self._clock()
        with self._locked() as file:
            content = _content(file)
            state = self._state(content)
            lines = [BlocklistLine(domain=domain, seen=1, blocked=int(blocked), at=now)]
            state.add(lines[0])
            seen, refused = state.tally(domain)
            is_met = seen >= self.rule.observations and refused >= self.rule.threshold * seen
            makes_entry = domain not in state.blocked and is_met
            if makes_entry:
                until = now + self.rule.expiry_hours * 3600
                lines.append(entry(domain, until, f"{refused} of {seen} rollouts were blocked"))
                state.add(lines[1])
            if len(content) > self._room:
                self._compact(state)
            else:
                self._append(file, content, lines)
        return makes_entry

    def block(self, domain: str, reason: str, *, hours: float | None = None) -> None:
        """Add an entry, by default for the hours of the rule. Raises StorageError."""
        until = self._clock() + (hours or self.rule.expiry_hours) * 3600
        with self._locked() as file:
            self._append(file, _content(file), [entry(plain_domain(domain), until, reason)])

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The current file, locked against other writers."""
        with storage_errors(self.path, "using the blocklist"):
            file = _open_locked(self.path)
            try:
                yield file
            finally:
                os.close(file)

    def _state(self, content: bytes, *, strict: bool = False) -> BlocklistState:
        """The state of the file. A bad line is an error at the opening, later a warning."""
        state = BlocklistState(self.rule.expiry_hours, self._clock())
        lines = content.split(b"\n")
        for number, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            try:
                state.add(read_line(text))
            except ValueError as error:
                problem = f"{self.path}:{number}: invalid line of a blocklist ({error})"
                if number == len(lines):
                    problem = f"{self.path}:{number}: ignored an incomplete last line"
                elif strict:
                    raise BlocklistError(f"{problem}: correct it or delete it") from error
                _LOG.warning("%s", problem)
        return state

    def _compact(self, state: BlocklistState, unless: bytes | None = None) -> None:
        kept = b"".join(written(line) for line in state.lines())
        self._room = max(_SMALL, 2 * len(kept))
        if kept != unless:
            write_atomically(self._disk, self.path, kept)

    def _append(self, file: int, content: bytes, lines: list[BlocklistLine]) -> None:
        """Append lines; a missing line end is added, an incomplete last line is cut off."""
        last = content[content.rfind(b"\n") + 1 :]
        start = b""
        if last and _is_line(last):
            start = b"\n"
        elif last:
            self._disk.truncate(file, len(content) - len(last))
        write_all(self._disk, file, start + b"".join(written(line) for line in lines))


def _open_locked(path: Path) -> int:
    """Raises StorageError where other processes hold the lock for too long, OSError."""
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        if _is_ours(file, path):
            return file
        os.close(file)
        if time.monotonic() > deadline:
            raise StorageError(
                f"{path} is locked by another process for more than {LOCK_TIMEOUT:.0f} s: try again"
            )
        time.sleep(_POLL)


def _is_ours(file: int, path: Path) -> bool:
    """Whether this process has the lock of the file at the path."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:
        os.close(file)
        raise


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _is_line(text: bytes) -> bool:
    try:
        read_line(text)
    except ValueError:
        return False
    return True


class DomainLearner(Protocol):
    """Learns which domains block the agent."""

    def observe(self, host: str, blocked: bool) -> object:
        """Raises StorageError where the observation cannot be stored."""


class BlocklistObserver:
    """Records in a blocklist which completed rollouts were blocked.

    As an observer of the engine it sees rollouts that are on disk, and a blocklist that cannot be
    written costs no rollout. Tasks of the bundled sites are ignored: all these sites share one
    address, and one of them blocks every visitor.
    """

    name = "blocklist"

    def __init__(self, learner: DomainLearner, tasks: TaskLookup) -> None:
        self._learner = learner
        self._tasks = tasks

    def observe(self, events: Sequence[Event]) -> None:
        """Handle a batch of events."""
        for event in events:
            match event:
                case AttemptRecorded(attempt=Attempt(outcome=Completed() as outcome) as attempt):
                    host = WebTask.of(self._tasks.task(attempt.task).row, "").host
                    if host != SITES:
                        self._record(host, blocked=outcome.measures[BLOCKED] > 0)

    def _record(self, host: str, *, blocked: bool) -> None:
        try:
            self._learner.observe(host, blocked)
        except StorageError as error:
            _LOG.warning("the blocklist did not record an observation of %s: %s", host, error)
