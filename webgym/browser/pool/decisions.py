"""The state of a browser pool and its decisions, as pure functions: no processes, clock or waiting.

A browser is *serving* until it reaches one of its limits. Then it is *retiring*: a replacement is
started, and the browser gets new sessions only when no serving browser has a free slot. So callers
do not wait, and a node whose Chromium can no longer be started goes on with the browsers it has. As
soon as a serving browser has a free slot, the retiring one is *draining*: it gets no new sessions,
and ends with its last session or after `drain_seconds` seconds.
"""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from webgym.browser.chromium.process_tree import ProcessInfo
from webgym.browser.settings import BrowserSettings

MEGABYTE = 2**20
PROVEN_AGE = 10.0
"""A browser that lives this long started well. One that dies sooner counts as a failed start."""
SAME_MOMENT = 1.0
LONGEST_PAUSE_AFTER_DEATH = 2.0
_LAUNCH_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class BrowserState(StrEnum):
    """Whether a browser gets new sessions."""

    SERVING = "serving"
    RETIRING = "retiring"
    DRAINING = "draining"


class EndReason(StrEnum):
    """Why a browser ends."""

    AGE = "age"
    SESSIONS = "sessions"
    MEMORY = "memory"
    FAILING = "failing"
    CRASHED = "crashed"
    HUNG = "hung"
    CLOSED = "closed"


class BrowserLoad(msgspec.Struct, frozen=True):
    """The facts about one browser that decisions need.

    `sessions` counts all used slots: open sessions and those being opened or closed. `failing`
    means that a session could not be closed, or that several could not be opened. `draining_for` is
    the number of seconds since the browser began to drain.
    """

    number: int
    state: BrowserState = BrowserState.SERVING
    sessions: int = 0
    opened: int = 0
    age: float = 0.0
    memory: int = 0
    failing: bool = False
    draining_for: float = 0.0


class LaunchBackoff:
    """Counts starts that failed in a row, and says how long to pause before the next one."""

    def __init__(self) -> None:
        self.running = 0
        self.failures = 0
        self.last_failure: str | None = None
        self._failed_at = -math.inf
        self._not_before = 0.0

    def failed(self, cause: str, now: float, longest_pause: float = math.inf) -> None:
        self.failures += 1
        self.last_failure = cause
        self._failed_at = now
        pause = _LAUNCH_PAUSES[min(self.failures, len(_LAUNCH_PAUSES)) - 1]
        self._not_before = now + min(pause, longest_pause)

    def died(self, age: float, cause: str, now: float) -> None:
        """A browser that had started ended by itself, or hung.

        Several that die at the same moment have one cause. Since each of them did start, the pauses
        stay short.
        """
        if age < PROVEN_AGE and now - self._failed_at > SAME_MOMENT:
            self.failed(cause, now, LONGEST_PAUSE_AFTER_DEATH)

    def proved(self, age: float, now: float) -> None:
        """A browser of this age works; resets the count if it started after the last failure."""
        if PROVEN_AGE <= age <= now - self._failed_at:
            self.failures, self.last_failure = 0, None

    def pause(self, now: float) -> float:
        """How long to wait before the next start."""
        return max(0.0, self._not_before - now)


def free_slots(load: BrowserLoad, settings: BrowserSettings) -> int:
    """How many more sessions the browser can get now."""
    free = settings.sessions_per_browser - load.sessions
    match load.state:
        case BrowserState.SERVING:
            return max(0, min(free, settings.browser_sessions - load.opened))
        case BrowserState.RETIRING:
            return max(0, free)
        case BrowserState.DRAINING:
            return 0


def choose_browser(loads: Iterable[BrowserLoad], settings: BrowserSettings) -> int | None:
    """The number of the browser that gets the next session; None if the session has to wait."""
    loads = list(loads)
    if sum(load.sessions for load in loads) >= settings.sessions:
        return None
    for state in (BrowserState.SERVING, BrowserState.RETIRING):
        fit = [load for load in loads if load.state is state and free_slots(load, settings)]
        if fit:
            return min(fit, key=lambda load: (load.sessions, load.number)).number
    return None


def launches_wanted(
    loads: Sequence[BrowserLoad], launching: int, waiting: int, settings: BrowserSettings
) -> int:
    """How many browsers to start besides those that are starting now.

    At least one browser always runs. More start when sessions wait or few slots are left.
    """
    serving = [load for load in loads if load.state is BrowserState.SERVING]
    present = len(serving) + launching
    used = sum(load.sessions for load in loads)
    still_to_come = max(0, settings.sessions - used - waiting)
    needed = waiting + min(settings.spare_slots, still_to_come)
    available = sum(free_slots(load, settings) for load in serving)
    missing = needed - available - launching * settings.sessions_per_browser
    more = -(-missing // settings.sessions_per_browser)
    return max(0 if present else 1, min(more, settings.most_browsers - present))


def retirement(load: BrowserLoad, settings: BrowserSettings) -> EndReason | None:
    """Why the browser should be replaced, or None."""
    if load.failing:
        return EndReason.FAILING
    if load.memory > settings.browser_megabytes * MEGABYTE:
        return EndReason.MEMORY
    if load.opened >= settings.browser_sessions:
        return EndReason.SESSIONS
    if load.age >= settings.browser_minutes * 60:
        return EndReason.AGE
    return None


def may_drain(loads: Sequence[BrowserLoad], settings: BrowserSettings) -> bool:
    """Whether retiring browsers are no longer needed for new sessions."""
    serving = [load for load in loads if load.state is BrowserState.SERVING]
    full = len(serving) >= settings.most_browsers
    return full or any(free_slots(load, settings) for load in serving)


def should_end(load: BrowserLoad, settings: BrowserSettings) -> bool:
    """Whether a draining browser is to be ended now."""
    if load.state is not BrowserState.DRAINING:
        return False
    return load.sessions == 0 or load.draining_for >= settings.drain_seconds


def renderers_to_end(
    processes: Sequence[ProcessInfo], settings: BrowserSettings
) -> list[tuple[ProcessInfo, str]]:
    """The page processes that hold too much memory, each with the reason in words."""
    renderers = [process for process in processes if process.kind == "renderer"]
    most = settings.page_megabytes * MEGABYTE
    large = [process for process in renderers if process.memory > most]
    if large:
        bound = f"more than {settings.page_megabytes} MiB"
        return [(process, f"it held {process.memory >> 20} MiB, {bound}") for process in large]
    total = sum(process.memory for process in processes)
    if renderers and total > 2 * settings.browser_megabytes * MEGABYTE:
        largest = max(renderers, key=lambda process: process.memory)
        return [(largest, f"it was the largest of a browser that held {total >> 20} MiB")]
    return []
