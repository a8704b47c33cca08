"""Concluding attempts: what the outcome of an ended attempt means for its rollout.

The outcome gets its prices and policy versions, the limit on attempts in flight learns from it, and
it is recorded. Then the rollout is over, or waits in the admission: for its retry, or to be run
again as a refill.
"""

import asyncio

import msgspec

from rollgym.engine.admission import Admission
from rollgym.engine.control import Control
from rollgym.engine.early_end import EarlyEnd
from rollgym.engine.policy import Policy
from rollgym.engine.recorder import Recorder
from rollgym.engine.steering import Steering
from rollgym.engine.supervisor import Supervisor
from rollgym.engine.versions import with_turns, with_versions
from rollgym.engine.work import Halt, OpenRollout
from rollgym.records import TRAITS, Attempt, Completed, Failed, Omitted, Outcome, derive_seed
from rollgym.store import cause_of, reduced


class Conclusions:
    """Records the ended attempts of one collection."""

    def __init__(
        self,
        policy: Policy,
        control: Control,
        recorder: Recorder,
        *,
        seed: int,
        admission: Admission,
        supervisor: Supervisor,
        steering: Steering,
        end: EarlyEnd,
    ) -> None:
        """`seed` is that of the run."""
        self._loop = asyncio.get_running_loop()
        self._policy = policy
        self._control = control
        self._recorder = recorder
        self._seed = seed
        self._admission = admission
        self._supervisor = supervisor
        self._steering = steering
        self._end = end
        self._retries = 0

    async def conclude(self, rollout: OpenRollout, outcome: Outcome | None) -> None:
        """Record an ended attempt, and schedule its retry if there is one."""
        if outcome is None:
            return
        known = self._control.policy_versions
        if known and rollout.encoded is not None:
            outcome, rollout.encoded = with_turns(rollout.encoded), None
        outcome = rollout.concluded(outcome)
        if outcome.models and self._policy.prices.by_model:
            priced = self._policy.prices.priced(outcome.models)
            outcome = msgspec.structs.replace(outcome, models=priced)
        if outcome.turns:
            outcome = with_versions(outcome, known, rollout.started, rollout.late)
        now = self._loop.time()
        self._learn(rollout, outcome, now)
        if rollout.halt is Halt.CUT and isinstance(outcome, Omitted):
            rollout.spent, rollout.expires = rollout.spent - 1, None
            await self.record(rollout, outcome, now, retry_after=0.0)
            return
        delay = self._retry_delay(rollout, outcome, now)
        recorded = await self.record(rollout, outcome, now, retry_after=delay)
        self._retries += not recorded.final

    async def record(
        self, rollout: OpenRollout, outcome: Outcome, now: float, *, retry_after: float | None
    ) -> Attempt:
        """Record an attempt that ended now; then the rollout is retried, refilled or over."""
        seconds, final = now - rollout.started, retry_after is None
        attempt, refilled = await self._recorder.record(rollout, outcome, seconds, final=final)
        self._end.note_attempt(attempt.outcome)
        if retry_after is not None and not attempt.final:
            self._admission.retry_at(now + retry_after, rollout)
            return attempt
        self._end.note_outcome(attempt.outcome)
        if refilled and (cause := cause_of(attempt.outcome)):
            self._admission.retry_at(now, rollout.reopened(reduced(cause)))
        return attempt

    def _learn(self, rollout: OpenRollout, outcome: Outcome, now: float) -> None:
        """Adjust the limit on attempts in flight to completions and signs of overload."""
        overload = isinstance(outcome, Failed) and TRAITS[outcome.failure.kind].overload
        if overload or isinstance(outcome, Completed):
            in_flight = len(self._supervisor.in_flight) + 1
            self._steering.observe(
                started=rollout.started, ended=now, overload=overload, in_flight=in_flight
            )

    def _retry_delay(self, rollout: OpenRollout, outcome: Outcome, now: float) -> float | None:
        if not isinstance(outcome, Failed):
            return None
        retry = self._policy.retry
        if retry.max_retries is not None and self._retries >= retry.max_retries:
            return None
        key = rollout.item.key
        seed = derive_seed(self._seed, "retry", key.task, key.repeat, rollout.attempt)
        delay = retry.delay(outcome.failure, rollout.spent, seed)
        expires = rollout.expires
        if delay is None or (expires is not None and now + delay >= expires):
            return None
        return delay
