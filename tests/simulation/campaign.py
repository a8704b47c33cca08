"""Many seeds, on all cores."""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import msgspec

from tests.simulation.invariants import Violation
from tests.simulation.simulate import plan_of, simulate
from tests.simulation.tally import Tally, tally

CHUNK = 100


class Finding(msgspec.Struct, frozen=True):
    """A seed whose simulation broke a promise."""

    seed: int
    seen: str


class Batch(msgspec.Struct, frozen=True):
    """What some seeds came to."""

    seeds: int
    counts: Tally
    findings: list[Finding]


def run_seeds(seeds: range) -> Batch:
    """Simulate each seed here and now."""
    counts: Tally = Counter()
    findings = []
    for seed in seeds:
        try:
            counts += tally(simulate(plan_of(seed)))
        except Violation as violation:
            findings.append(Finding(seed, str(violation)))
        except Exception as error:  # noqa: BLE001 - the seed must be known, whatever it is
            findings.append(Finding(seed, f"the simulation itself broke: {error!r}"))
    return Batch(len(seeds), counts, findings)


def run_campaign(seeds: range, jobs: int | None = None) -> Iterator[Batch]:
    """Simulate the seeds in several processes; batches come as they are done."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    workers = min(jobs or os.cpu_count() or 1, max(1, len(chunks)))
    if workers == 1:
        yield from map(run_seeds, chunks)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(run_seeds, chunk) for chunk in chunks]):
            yield future.result()
