"""Everything that a seed decides, as one frozen value.

A plan is drawn from a `random.Random`, either a plain one (a seed of the campaign) or one of
hypothesis's, which can shrink what it gave. Nothing is drawn later: the same plan is the same
simulation.
"""

from enum import StrEnum
from random import Random

import msgspec

from rollgym.engine import Adaptive, Backoff, Fixed, Policy, RetryPolicy, RetryRule
from rollgym.records import FailureKind
from rollgym.store import EVERY_RECORD, WHOLE, Shard, Status, SyncPolicy
from tests.simulation.behaviour import Behaviour, draw_behaviour
from tests.simulation.controls import Change, LiveChange, draw_changes
from tests.simulation.disk import Death, DiskFault, FaultKind

SCRIPT_LENGTH = 3
LATEST_STOP = 8.0


class Intrusion(StrEnum):
    """What is different in a command that is to be refused."""

    SEED = "seed"
    CONFIG = "temperature"
    INPUTS = "inputs"


class TaskPlan(msgspec.Struct, frozen=True):
    """A task, and for each repeat what its attempts do, over and over."""

    index: int
    scripts: tuple[tuple[Behaviour, ...], ...]

    @property
    def repeats(self) -> int:
        return len(self.scripts)


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One process: how it opens the run, and what befalls it.

    `stops` are the times of requests to stop, `cancelled_at` when its caller cancels it.
    `intrusion` is another command tried in between, before this one opens the run.
    """

    shard: Shard = WHOLE
    concurrency: Fixed | Adaptive = Fixed(2)
    max_abandoned: int = 1000
    sync: SyncPolicy = SyncPolicy()
    sync_seconds: float = 0.0
    reopen: tuple[Status, ...] = ()
    death: Death | None = None
    fault: DiskFault | None = None
    stops: tuple[float, ...] = ()
    cancelled_at: float | None = None
    intrusion: Intrusion | None = None
    max_same_failures: int = 0
    refills: int = 0
    changes: tuple[LiveChange, ...] = ()

    @property
    def policy_limit(self) -> int:
        """The most attempts that the policy allows in flight."""
        match self.concurrency:
            case Fixed(limit=limit):
                return limit
            case Adaptive(maximum=maximum):
                return maximum

    @property
    def limit(self) -> int:
        """The most attempts that may ever be in flight."""
        live = [each.value for each in self.changes if each.change is Change.CONCURRENCY]
        return max(self.policy_limit, *live, 0)

    def makes(self, *kinds: Change) -> bool:
        """Whether there is such a change."""
        return any(each.change in kinds for each in self.changes)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation: a run and the lives it takes. The last life has no faults.

    `fork_before` is the life before which the directory is copied; the copy is finished by itself
    and both are merged at the end. `merged` merges the run alone. `repeated` runs everything twice.
    """

    run_seed: int
    tasks: tuple[TaskPlan, ...]
    policy: Policy
    lives: tuple[Life, ...]
    fork_before: int | None = None
    merged: bool = False
    repeated: bool = False

    def policy_of(self, life: Life) -> Policy:
        """The policy, with what each life chooses anew."""
        return msgspec.structs.replace(
            self.policy,
            concurrency=life.concurrency,
            max_abandoned=life.max_abandoned,
            max_same_failures=life.max_same_failures,
            refills=life.refills,
        )

    def behaviour(self, task: int, repeat: int, attempt: int) -> Behaviour:
        for planned in self.tasks:
            if planned.index == task:
                script = planned.scripts[repeat]
                return script[(attempt - 1) % len(script)]
        raise LookupError(f"there is no task {task}")

    def indexes(self, shard: Shard = WHOLE) -> set[int]:
        """The tasks of a shard."""
        return {task for task, _ in self.keys(shard)}

    def keys(self, shard: Shard = WHOLE) -> list[tuple[int, int]]:
        """Every rollout of a shard, in order."""
        return [
            (task.index, repeat)
            for position, task in enumerate(self.tasks)
            if shard.holds(position)
            for repeat in range(task.repeats)
        ]


def draw_plan(random: Random) -> Plan:
    """A plan; mostly small, so that many fit into a second."""
    tasks = _draw_tasks(random)
    rollouts = sum(task.repeats for task in tasks)
    faulty = random.choice((0, 1, 1, 2, 2, 3, 4))
    lives = [_draw_life(random, rollouts) for _ in range(faulty)]
    ending = random.random()
    return Plan(
        run_seed=random.randrange(1000),
        tasks=tasks,
        policy=_draw_policy(random),
        lives=(*lives, *_draw_last_lives(random)),
        fork_before=random.randrange(faulty) if faulty and ending < 0.1 else None,
        merged=0.1 <= ending < 0.2,
        repeated=random.random() < 0.25,
    )


def _draw_tasks(random: Random) -> tuple[TaskPlan, ...]:
    count = 0 if random.random() < 0.01 else random.choice((1, 2, 3, 4, 6, 9))
    first, stride = random.choice((0, 0, 7)), random.choice((1, 1, 3))
    return tuple(
        TaskPlan(first + stride * number, _draw_scripts(random, random.choice((1, 1, 2, 3))))
        for number in range(count)
    )


def _draw_scripts(random: Random, repeats: int) -> tuple[tuple[Behaviour, ...], ...]:
    return tuple(
        tuple(draw_behaviour(random) for _ in range(random.randint(1, SCRIPT_LENGTH)))
        for _ in range(repeats)
    )


def _draw_policy(random: Random) -> Policy:
    return Policy(
        retry=_draw_retry(random),
        attempt_timeout=random.choice((1.0, 2.5, 10.0)),
        rollout_timeout=random.choice((2.0, 6.0, 60.0)),
        completion_threshold=random.choice((1.0, 1.0, 1.0, 0.05, 0.5, 0.9)),
        completion_grace_period=random.choice((0.0, 0.5, 3.0)),
        drain_timeout=random.choice((0.0, 0.7, 4.0)),
        cancel_grace=random.choice((0.0, 0.5, 2.0)),
    )


def _draw_retry(random: Random) -> RetryPolicy:
    return RetryPolicy(
        default=_draw_rule(random),
        by_kind={
            kind: _draw_rule(random)
            for kind in (FailureKind.MODEL_RATE_LIMIT, FailureKind.TIMEOUT)
            if random.random() < 0.5
        },
        max_retry_after=random.choice((1.0, 5.0)),
        max_retries=random.choice((None, None, None, 0, 3)),
    )


def _draw_rule(random: Random) -> RetryRule:
    backoff = Backoff(
        initial=random.choice((0.0, 0.1, 1.0)),
        factor=random.choice((1.0, 2.0)),
        maximum=random.choice((1.0, 3.0)),
        jitter=random.choice((0.0, 0.5, 1.0)),
    )
    return RetryRule(random.randint(1, 4), backoff)


def _draw_concurrency(random: Random) -> Fixed | Adaptive:
    if random.random() < 0.3:
        return Adaptive(initial=random.randint(1, 4), maximum=random.randint(4, 8))
    return Fixed(random.choice((1, 2, 3, 8)))


def _draw_sync(random: Random) -> SyncPolicy:
    few = SyncPolicy(max_delay=random.choice((0.0, 0.1, 2.0)), max_unsynced=random.randint(1, 5))
    return random.choice((EVERY_RECORD, SyncPolicy(), few))


def _draw_reopen(random: Random) -> tuple[Status, ...]:
    return random.choice(
        ((), (), (Status.FAILED,), (Status.OMITTED,), (Status.FAILED, Status.OMITTED))
    )


def _draw_last_lives(random: Random) -> list[Life]:
    """A life without faults: of the whole run, or of all the shards of a division."""
    count = random.choice((1, 1, 1, 2, 3))
    concurrency, sync, reopen = (
        _draw_concurrency(random),
        _draw_sync(random),
        _draw_reopen(random),
    )
    refills = _draw_refills(random)
    return [
        Life(
            shard=Shard(index, count),
            concurrency=concurrency,
            sync=sync,
            reopen=reopen,
            refills=refills,
            changes=_draw_changes(random, deadline=False),
        )
        for index in range(count)
    ]


def _draw_refills(random: Random) -> int:
    return random.choice((0, 0, 0, 1, 2, 5))


def _draw_changes(random: Random, *, deadline: bool) -> tuple[LiveChange, ...]:
    return draw_changes(random, deadline=deadline) if random.random() < 0.4 else ()


def _draw_life(random: Random, rollouts: int) -> Life:
    count = random.choice((1, 1, 1, 2, 3))
    fault_kind = random.random()
    operations = 12 + 3 * rollouts
    return Life(
        shard=Shard(random.randrange(count), count),
        concurrency=_draw_concurrency(random),
        max_abandoned=random.choice((1000, 1000, 0, 2)),
        sync=_draw_sync(random),
        sync_seconds=random.choice((0.0, 0.001, 0.2)),
        reopen=_draw_reopen(random),
        death=_draw_death(random, operations) if fault_kind < 0.6 else None,
        fault=_draw_fault(random, operations) if 0.5 <= fault_kind < 0.75 else None,
        stops=_draw_stops(random) if 0.75 <= fault_kind < 0.95 else (),
        cancelled_at=random.uniform(0.0, LATEST_STOP) if fault_kind >= 0.95 else None,
        intrusion=random.choice((None, None, None, *Intrusion)),
        max_same_failures=random.choice((0, 0, 1, 2, 3)),
        refills=_draw_refills(random),
        changes=_draw_changes(random, deadline=True),
    )


def _draw_death(random: Random, operations: int) -> Death:
    machine, luck = random.random() < 0.5, random.randrange(1 << 16)
    if random.random() < 0.2:
        return Death(at=random.uniform(0.0, LATEST_STOP), machine=machine, luck=luck)
    return Death(
        operation=random.randint(1, operations),
        torn=random.choice((0.0, 0.0, 0.5, random.random(), 1.0)),
        machine=machine,
        luck=luck,
    )


def _draw_fault(random: Random, operations: int) -> DiskFault:
    return DiskFault(
        operation=random.randint(1, operations),
        kind=random.choice(tuple(FaultKind)),
        part=random.choice((0.0, 0.5, random.random())),
    )


def _draw_stops(random: Random) -> tuple[float, ...]:
    first = random.choice((0.0, random.uniform(0.0, LATEST_STOP)))
    if random.random() < 0.5:
        return (first,)
    return (first, first + random.choice((0.0, random.uniform(0.0, 3.0))))
