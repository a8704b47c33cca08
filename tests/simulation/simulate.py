"""One simulation, from a plan to a checked story."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.simulation.disk import SimulatedDisk
from tests.simulation.invariants import check, check_same_decisions
from tests.simulation.plan import Plan, draw_plan
from tests.simulation.story import Story
from tests.simulation.world import World

_MEMORY = Path("/dev/shm")


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    return draw_plan(Random(seed))


def run_plan(plan: Plan, make_disk: type[SimulatedDisk] = SimulatedDisk) -> Story:
    """Run a plan in a directory of its own, which is gone afterwards. Checks nothing."""
    with _scratch() as directory:
        return World(plan, directory, make_disk).run()


def simulate(plan: Plan, make_disk: type[SimulatedDisk] = SimulatedDisk) -> Story:
    """Run a plan and check every promise. Raises Violation."""
    story = run_plan(plan, make_disk)
    check(story)
    if plan.repeated:
        check_same_decisions(story, run_plan(plan, make_disk))
    return story


@contextmanager
def _scratch() -> Iterator[Path]:
    """A directory in memory where there is one: no simulated disk needs a real one."""
    where = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="simulation-", dir=where) as directory:
        yield Path(directory)
