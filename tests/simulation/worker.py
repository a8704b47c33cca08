"""The simulated worker: does what the plan says, and tells the log.

Its rewards name the rollout, the attempt and the life in their last digits, so that no reward can
be taken for another.
"""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgspec

from rollgym.engine import WorkItem
from rollgym.records import (
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    ToolError,
    Usage,
)
from tests.simulation.behaviour import ERRORS, Act, Behaviour, Reaction
from tests.simulation.log import Cancelled, Ended, Log, Started
from tests.simulation.loop import SimulatedLoop
from tests.simulation.plan import Plan


class _HalfMadeError(ToolError):
    """A plug-in's error that forgets its base class."""

    def __init__(self) -> None:
        pass


class _OddKindError(ToolError):
    """A plug-in's error with a kind of its own making."""

    kind = cast("FailureKind", "weather")


class _Unspeakable:
    """Nothing can be said about it."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class SimulatedWorker:
    """One life's worker."""

    def __init__(self, plan: Plan, life: int, log: Log, loop: SimulatedLoop) -> None:
        self._plan = plan
        self._life = life
        self._log = log
        self._loop = loop
        self._never: list[asyncio.Future[None]] = []

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        key = (item.key.task, item.key.repeat)
        behaviour = self._plan.behaviour(*key, attempt)
        self._log.add(Started(self._log.now, key, attempt, item.seed, deadline))
        try:
            outcome = await _Attempt(self, behaviour, item, attempt).perform()
        except BaseException as error:
            self._log.add(Ended(self._log.now, key, attempt, type(error).__name__, None))
            raise
        self._log.add(
            Ended(self._log.now, key, attempt, type(outcome).__name__, _usable_reward(outcome))
        )
        return outcome

    def reward(self, behaviour: Behaviour, item: WorkItem, attempt: int) -> float:
        signature = ((item.key.task * 10 + item.key.repeat) * 100 + attempt) * 10 + self._life
        return behaviour.reward + signature / 1e9

    def note_cancellation(self, item: WorkItem, attempt: int) -> None:
        key = (item.key.task, item.key.repeat)
        self._log.add(Cancelled(self._log.now, key, attempt))

    async def linger(self, seconds: float | None) -> None:
        """Let time pass, whatever anybody says; for ever where `seconds` is None."""
        until = math.inf if seconds is None else self._loop.time() + seconds
        while self._loop.time() < until and not self._loop.closing:
            with suppress(asyncio.CancelledError):
                await self.wait(None if seconds is None else until - self._loop.time())

    async def wait(self, seconds: float | None) -> None:
        """Let time pass; for ever where `seconds` is None."""
        if seconds is None:
            # Somebody must hold on to what is waited for, or the task vanishes while it waits.
            never: asyncio.Future[None] = self._loop.create_future()
            self._never.append(never)
            await never
        else:
            await asyncio.sleep(seconds)


class _Attempt:
    """One attempt, by its behaviour."""

    def __init__(
        self, worker: SimulatedWorker, behaviour: Behaviour, item: WorkItem, attempt: int
    ) -> None:
        self._worker = worker
        self._behaviour = behaviour
        self._item = item
        self._attempt = attempt

    async def perform(self) -> Outcome:
        behaviour = self._behaviour
        try:
            await self._worker.wait(behaviour.after)
        except asyncio.CancelledError:
            self._worker.note_cancellation(self._item, self._attempt)
            await self._worker.linger(behaviour.linger)
            if behaviour.reaction is Reaction.ENDS:
                raise
            return self._react()
        return _ACTS[behaviour.act](self)

    def _react(self) -> Outcome:
        match self._behaviour.reaction:
            case Reaction.COMPLETES:
                return self._completed()
            case Reaction.FAILS:
                raise RuntimeError("the cleanup failed")
            case _:
                return _ACTS[self._behaviour.act](self)

    def complete(self) -> Outcome:
        return self._completed()

    def _completed(self) -> Completed:
        behaviour = self._behaviour
        return Completed(
            self._worker.reward(behaviour, self._item, self._attempt),
            success=(None, None, True, False)[behaviour.variant % 4],
            measures={"steps": float(behaviour.variant)},
            usage=Usage(input_tokens=10, output_tokens=behaviour.variant),
            phases={"model": 0.5},
            result=msgspec.Raw(b'{"steps":\n[1, 2.0]}'),
        )

    def raise_typed(self) -> Outcome:
        behaviour = self._behaviour
        retryable = (None, None, None, True, False)[behaviour.variant % 5]
        raise ERRORS[behaviour.error](
            "as planned", retryable=retryable, retry_after=behaviour.retry_after
        )

    def raise_untyped(self) -> Outcome:
        raise (ValueError("as planned \ud800"), TimeoutError(), KeyError(1))[
            self._behaviour.variant % 3
        ]

    def return_failed(self) -> Outcome:
        kind = ERRORS[self._behaviour.error].kind
        failure = Failure.make(kind, "as planned", retry_after=self._behaviour.retry_after)
        return Failed(failure, usage=Usage(output_tokens=3))

    def return_skipped(self) -> Outcome:
        return Omitted(OmitReason.SKIPPED, "as planned")

    def return_garbage(self) -> Outcome:
        garbage: tuple[Any, ...] = (None, "completed", 1.0, {"reward": 1.0}, Completed)
        return cast("Outcome", garbage[self._behaviour.variant % len(garbage)])

    def reward_wrongly(self) -> Outcome:
        rewards: tuple[Any, ...] = (math.nan, math.inf, None, "1", 10**400, _Unspeakable())
        reward = rewards[self._behaviour.variant % len(rewards)]
        return msgspec.structs.replace(self._completed(), reward=reward)

    def return_unencodable(self) -> Outcome:
        changes: tuple[dict[str, Any], ...] = (
            {"result": msgspec.Raw(b'{"cut')},
            {"result": msgspec.Raw(b"\xff")},
            {"measures": {"steps": math.nan}},
            {"phases": {"model": object()}},
            {"usage": None},
            {"success": "yes"},
        )
        change = changes[self._behaviour.variant % len(changes)]
        return msgspec.structs.replace(self._completed(), **change)

    def fail_wrongly(self) -> Outcome:
        tool = FailureKind.TOOL
        failures: tuple[Any, ...] = (
            "not a failure",
            Failure(cast("FailureKind", "unheard_of"), "as planned", True),
            Failure(tool, "as planned", True, math.nan),
            Failure(tool, "as planned", True, -5.0),
            Failure(tool, "as planned", True, cast("float", "soon")),
        )
        errors: tuple[BaseException, ...] = (
            _HalfMadeError(),
            _OddKindError("as planned"),
            ToolError("as planned", retry_after=cast("float", "soon")),
            ToolError("as planned", retryable=cast("bool", "yes")),
            BaseExceptionGroup("as planned", [ToolError("one"), ToolError("two")]),
            GeneratorExit("as planned"),
        )
        variant = self._behaviour.variant % (len(failures) + len(errors))
        if variant >= len(failures):
            raise errors[variant - len(failures)]
        return Failed(failures[variant])

    def cancel_itself(self) -> Outcome:
        raise asyncio.CancelledError

    def exit(self) -> Outcome:
        raise SystemExit(3)


_ACTS: dict[Act, Callable[[_Attempt], Outcome]] = {
    Act.COMPLETES: _Attempt.complete,
    Act.RAISES_TYPED: _Attempt.raise_typed,
    Act.RAISES_UNTYPED: _Attempt.raise_untyped,
    Act.RETURNS_FAILED: _Attempt.return_failed,
    Act.RETURNS_SKIPPED: _Attempt.return_skipped,
    Act.RETURNS_GARBAGE: _Attempt.return_garbage,
    Act.REWARDS_WRONGLY: _Attempt.reward_wrongly,
    Act.RETURNS_UNENCODABLE: _Attempt.return_unencodable,
    Act.FAILS_WRONGLY: _Attempt.fail_wrongly,
    Act.CANCELS_ITSELF: _Attempt.cancel_itself,
    Act.EXITS: _Attempt.exit,
}


def _usable_reward(outcome: object) -> float | None:
    """The reward of a completion that can be recorded as it is."""
    if not isinstance(outcome, Completed) or isinstance(outcome.reward, bool):
        return None
    if not isinstance(outcome.reward, float) or not math.isfinite(outcome.reward):
        return None
    try:
        msgspec.json.decode(msgspec.json.encode(outcome), type=Completed)
    except (TypeError, ValueError):
        return None
    return outcome.reward
