"""An event loop whose time is virtual.

Waiting is what the selector does in a real loop. This one's selector never waits: it moves the
clock on by as much as it was asked to wait. Where it is asked to wait without end, nothing can ever
happen again, and that is an error; so are more turns of the loop, or more virtual time, than a
simulation can need. A hang of the code under test is thus a finding and never a hang of the test.

Turns take no time, so that things can happen at the very same moment. But a loop calls its timers
up to a nanosecond early, and two that come too early can wake each other for ever while the time
stands still. So after many turns in one moment the clock moves on by a tick.

There are no threads: whatever would start one is refused.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

MOST_TURNS = 100_000
TURNS_PER_TICK = 1000
TICK = 1e-9
HORIZON = 1e6
CLOSE_TIMEOUT = 1e4


class SimulationStuckError(Exception):
    """What runs in the loop will not end."""


class DeadlockError(SimulationStuckError):
    """Everything waits, and nothing is scheduled."""


class LivelockError(SimulationStuckError):
    """Something goes on for longer than anything should."""


class _Clock(selectors.SelectSelector):
    """Time, and the waiting for it. The loop registers its own wake-up pipe, which stays silent."""

    def __init__(self, most_turns: int, horizon: float) -> None:
        super().__init__()
        self.now = 0.0
        self.turns = 0
        self.most_turns = most_turns
        self.horizon = horizon
        self.fatal: BaseException | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if self.fatal is not None:
            raise self.fatal
        if timeout is None:
            raise DeadlockError(f"at {self.now:g} s everything waits and nothing is scheduled")
        self.turns += 1
        if timeout > 0:
            self.now += timeout
        elif self.turns % TURNS_PER_TICK == 0:
            self.now += TICK
        if self.turns > self.most_turns or self.now > self.horizon:
            raise LivelockError(f"still busy after {self.turns} turns, at {self.now:g} s")
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """The loop. It is used for one `run` and then closed.

    A run has at most `most_turns` turns and ends before the virtual time `horizon`. `complaints`
    are the errors that only the loop saw. `closing` tells deaf simulated workers that the
    simulation is over.
    """

    def __init__(self, most_turns: int = MOST_TURNS, horizon: float = HORIZON) -> None:
        self._clock = _Clock(most_turns, horizon)
        self.complaints: list[str] = []
        self.closing = False
        super().__init__(self._clock)
        self.set_exception_handler(_note_complaint)

    def time(self) -> float:
        return self._clock.now

    @property
    def turns(self) -> int:
        """How often the loop has gone round."""
        return self._clock.turns

    def kill(self, error: BaseException) -> None:
        """End the run with this error before anything else happens in the loop."""
        self._clock.fatal = error

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main`, then put an end to whatever it left behind, and close.

        Tasks that ignore even that cancellation are dropped.
        """
        try:
            return self.run_until_complete(main)
        finally:
            self.closing = True
            self._clock.fatal = None
            self._clock.turns = 0
            self._clock.horizon = self.time() + 2 * CLOSE_TIMEOUT
            try:
                self.run_until_complete(_end_leftovers())
            finally:
                self.close()

    def run_in_executor(self, *_: object) -> NoReturn:
        raise RuntimeError("there are no threads in the simulation")


async def _end_leftovers() -> None:
    leftovers = asyncio.all_tasks() - {asyncio.current_task()}
    for task in leftovers:
        task.cancel()
    if leftovers:
        await asyncio.wait(leftovers, timeout=CLOSE_TIMEOUT)


def _note_complaint(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if isinstance(loop, SimulatedLoop) and not loop.closing:
        error = context.get("exception")
        loop.complaints.append(f"{context['message']}: {error!r}")
