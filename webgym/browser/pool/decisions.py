"""The decisions of a pool, as functions of what it sees: no processes, no clock, no waiting.

A browser is *serving* until it reaches one of its limits. Then it is *retiring*: another is started
in its place, and it takes new sessions only for want of a better one, so that nobody waits and a
node whose Chromium can no longer be started goes on with what it has. As soon as another has room
it is *draining*: it takes none, and ends with its last session or when patience ends.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from webgym.browser.chromium.process_tree import ProcessInfo
from webgym.browser.pool.settings import PoolSettings

_LAUNCH_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Condition(StrEnum):
    """Whether a browser takes new sessions."""

    SERVING = "serving"
    RETIRING = "retiring"
    DRAINING = "draining"


class Reason(StrEnum):
    """Why a browser ends."""

    AGE = "age"
    SESSIONS = "sessions"
    MEMORY = "memory"
    FAILING = "failing"
    CRASHED = "crashed"
    HUNG = "hung"
    CLOSED = "closed"


class Load(msgspec.Struct, frozen=True):
    """One browser, as far as decisions need to know it.

    `sessions` are all that take up room: open, being opened and being closed. `failing`: one of
    them could not be closed, or several could not be opened. `draining_for` is how long it has been
    draining.
    """

    number: int
    condition: Condition = Condition.SERVING
    sessions: int = 0
    opened: int = 0
    age: float = 0.0
    memory: int = 0
    failing: bool = False
    draining_for: float = 0.0


def room(load: Load, settings: PoolSettings) -> int:
    """How many more sessions the browser takes now."""
    places = settings.sessions_per_browser - load.sessions
    match load.condition:
        case Condition.SERVING:
            return max(0, min(places, settings.most_sessions - load.opened))
        case Condition.RETIRING:
            return max(0, places)
        case Condition.DRAINING:
            return 0


def placed_on(loads: Iterable[Load], settings: PoolSettings) -> int | None:
    """The number of the browser that a new session goes to, or None: it has to wait."""
    loads = list(loads)
    if sum(load.sessions for load in loads) >= settings.capacity:
        return None
    for condition in (Condition.SERVING, Condition.RETIRING):
        fit = [load for load in loads if load.condition is condition and room(load, settings)]
        if fit:
            return min(fit, key=lambda load: (load.sessions, load.number)).number
    return None


def launches_wanted(
    loads: Sequence[Load], launching: int, waiting: int, settings: PoolSettings
) -> int:
    """How many browsers to start beside those that are being started.

    There is always one. More come as sessions wait or are about to fill those there are.
    """
    serving = [load for load in loads if load.condition is Condition.SERVING]
    present = len(serving) + launching
    taken = sum(load.sessions for load in loads)
    still_to_come = max(0, settings.capacity - taken - waiting)
    needed = waiting + min(settings.spare_room, still_to_come)
    available = sum(room(load, settings) for load in serving)
    missing = needed - available - launching * settings.sessions_per_browser
    more = -(-missing // settings.sessions_per_browser)
    return max(0 if present else 1, min(more, settings.most_browsers - present))


def retirement(load: Load, settings: PoolSettings) -> Reason | None:
    """Why the browser should not go on, if so."""
    if load.failing:
        return Reason.FAILING
    if load.memory > settings.browser_memory:
        return Reason.MEMORY
    if load.opened >= settings.most_sessions:
        return Reason.SESSIONS
    if load.age >= settings.longest_age:
        return Reason.AGE
    return None


def may_drain(loads: Sequence[Load], settings: PoolSettings) -> bool:
    """Whether retiring browsers are no longer needed for new sessions."""
    serving = [load for load in loads if load.condition is Condition.SERVING]
    return len(serving) >= settings.most_browsers or any(room(load, settings) for load in serving)


def is_over(load: Load, settings: PoolSettings) -> bool:
    """Whether a draining browser is to be ended now."""
    if load.condition is not Condition.DRAINING:
        return False
    return load.sessions == 0 or load.draining_for >= settings.drain_patience


def renderers_to_end(
    processes: Sequence[ProcessInfo], settings: PoolSettings
) -> list[tuple[ProcessInfo, str]]:
    """The processes of pages that hold too much memory, each with the reason in words."""
    renderers = [process for process in processes if process.kind == "renderer"]
    large = [process for process in renderers if process.memory > settings.renderer_memory]
    if large:
        bound = f"more than {settings.renderer_memory >> 20} MiB"
        return [(process, f"it held {process.memory >> 20} MiB, {bound}") for process in large]
    total = sum(process.memory for process in processes)
    if renderers and total > 2 * settings.browser_memory:
        largest = max(renderers, key=lambda process: process.memory)
        return [(largest, f"it was the largest of a browser that held {total >> 20} MiB")]
    return []


def launch_pause(failures: int) -> float:
    """How long to wait with the next start after so many failures in a row."""
    return _LAUNCH_PAUSES[min(failures, len(_LAUNCH_PAUSES)) - 1] if failures else 0.0
