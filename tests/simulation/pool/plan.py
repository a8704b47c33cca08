"""Everything that a seed decides about a pool."""

from random import Random

import msgspec

from rollgym.pool import OnPolicyChange, Order, PoolSettings
from rollgym.store import EVERY_RECORD, SyncPolicy
from tests.simulation.disk import Death, DiskFault, FaultKind

LONGEST_LIFE = 12.0
LAST_LIFE = 400.0


class PoolLife(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the pool. `trainer_deaths` are the times at which its trainers die."""

    concurrency: int
    sync: SyncPolicy
    sync_seconds: float
    stop: float
    death: Death | None = None
    fault: DiskFault | None = None
    trainer_deaths: tuple[float, ...] = ()


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation of a pool. The last life has no faults.

    Of all attempts the share `failures` fails for good, and as many hang. Attempts last up to
    `slowest` seconds.
    """

    seed: int
    rows: int
    settings: PoolSettings
    refills: int
    failures: float
    slowest: float
    lives: tuple[PoolLife, ...]


def draw_pool_plan(random: Random) -> PoolPlan:
    """A plan; small, so that many fit into a second."""
    return PoolPlan(
        seed=random.randrange(1 << 30),
        rows=random.choice((1, 2, 5)),
        settings=PoolSettings(
            group_size=random.choice((1, 2, 3)),
            order=random.choice(tuple(Order)),
            max_undelivered=random.choice((1, 2, 4)),
            max_staleness=random.choice((None, None, 0, 1, 3)),
            on_policy_change=random.choice(tuple(OnPolicyChange)),
            keep_equal_rewards=random.random() < 0.8,
            deliver_short=random.random() < 0.7,
            lease_seconds=random.choice((1.5, 30.0)),
            max_leased=random.choice((1, 5, 1024)),
        ),
        refills=random.choice((0, 1, 4)),
        failures=random.choice((0.0, 0.1, 0.3)),
        slowest=random.choice((0.3, 2.0)),
        lives=(
            *(_draw_life(random) for _ in range(random.choice((1, 2, 3)))),
            PoolLife(concurrency=3, sync=SyncPolicy(), sync_seconds=0.001, stop=LAST_LIFE),
        ),
    )


def _draw_life(random: Random) -> PoolLife:
    kind = random.random()
    deaths = sorted(random.uniform(0.0, LONGEST_LIFE) for _ in range(random.choice((0, 1, 3))))
    return PoolLife(
        concurrency=random.choice((1, 2, 5)),
        sync=random.choice((EVERY_RECORD, SyncPolicy(), SyncPolicy(max_delay=1.0))),
        sync_seconds=random.choice((0.0, 0.001, 0.3)),
        stop=random.uniform(1.0, LONGEST_LIFE),
        death=_draw_death(random) if kind < 0.7 else None,
        fault=_draw_fault(random) if 0.7 <= kind < 0.85 else None,
        trainer_deaths=tuple(deaths),
    )


def _draw_death(random: Random) -> Death:
    machine, luck = random.random() < 0.5, random.randrange(1 << 16)
    if random.random() < 0.2:
        return Death(at=random.uniform(0.0, LONGEST_LIFE), machine=machine, luck=luck)
    torn = random.choice((0.0, 0.5, random.random(), 1.0))
    return Death(operation=random.randint(1, 150), torn=torn, machine=machine, luck=luck)


def _draw_fault(random: Random) -> DiskFault:
    kinds = (FaultKind.SHORT_WRITE, FaultKind.NO_SPACE, FaultKind.ERROR, FaultKind.BROKEN)
    return DiskFault(operation=random.randint(1, 150), kind=random.choice(kinds))
