"""One simulation of a pool, from its seed to its checked promises, and many of them."""

from random import Random

from tests.simulation.campaign import Finding
from tests.simulation.pool.plan import draw_pool_plan
from tests.simulation.pool.promises import PoolViolationError, check_pool
from tests.simulation.pool.world import run_pool_plan


def simulate_pool(seed: int) -> list[str]:
    """How each life of the pool ended. Raises PoolViolationError."""
    plan = draw_pool_plan(Random(seed))
    log, files = run_pool_plan(plan)
    check_pool(plan, log, files)
    return [ending.partition(":")[0] for ending in log.endings]


def run_pool_seeds(seeds: range) -> list[Finding]:
    """The seeds that broke a promise."""
    findings = []
    for seed in seeds:
        try:
            simulate_pool(seed)
        except PoolViolationError as violation:
            findings.append(Finding(seed, f"(pool) {violation}"))
        except Exception as error:  # noqa: BLE001 - the seed must be known, whatever it is
            findings.append(Finding(seed, f"(pool) the simulation itself broke: {error!r}"))
    return findings
