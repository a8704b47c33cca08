"""What the engine and the store cost: CPU and memory per rollout, with a worker that does nothing.

Each case runs in a process of its own, so that its peak memory is its own. CPU time is that of the
whole process with its threads, from before the run is made to after its last sync: source,
scheduling, journal, syncs. Start-up of the interpreter is not in it.

    python -m benchmarks.engine            # all figures; exits 1 when a goal is missed
    python -m benchmarks.engine --case 200000 64
"""

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figure import Figures
from rollgym.engine import Fixed, Policy, Worker, WorkItem, collect, run
from rollgym.records import Completed, Outcome, Row, Task
from rollgym.store import open_run

SMALL, MIDDLE, LARGE = 10_000, 200_000, 1_000_000
CONCURRENCY = 64
IN_FLIGHT = 10_000
MEBIBYTE = 1 << 20


def peak_memory() -> float:
    """Peak resident memory of this process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / MEBIBYTE if sys.platform == "darwin" else peak / 1024


class Gathering:
    """A worker that does nothing, or waits until so many are in flight together."""

    def __init__(self, together: int) -> None:
        self._awaited = together
        self._all_here = asyncio.Event()
        if not together:
            self._all_here.set()

    async def __call__(self, _item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        if not self._all_here.is_set():
            self._awaited -= 1
            if self._awaited == 0:
                self._all_here.set()
            await self._all_here.wait()
        return Completed(1.0)


async def collect_once(directory: Path, rollouts: int, policy: Policy, worker: Worker) -> float:
    """The CPU seconds of one collection, from opening the run to its last sync."""
    row = Row.of({"question": "What is the answer?"})
    cpu = time.process_time()
    with open_run(directory, (Task(index, row) for index in range(rollouts))) as store:
        coverage = await collect(store.inputs, worker, store, policy)
    if coverage.completed != rollouts:
        raise RuntimeError(f"the benchmark did not complete: {coverage}")
    return time.process_time() - cpu


async def case(rollouts: int, concurrency: int, *, together: bool) -> dict[str, float]:
    """Collect, and then resume what is already complete; what both cost."""
    worker = Gathering(concurrency if together else 0)
    policy = Policy(concurrency=Fixed(concurrency))
    with tempfile.TemporaryDirectory(prefix="rollgym-bench-") as directory:
        wall = time.perf_counter()
        cpu = await collect_once(Path(directory), rollouts, policy, worker)
        wall, memory = time.perf_counter() - wall, peak_memory()
        resume = await collect_once(Path(directory), rollouts, policy, worker)
    return {
        "cpu": cpu / rollouts,
        "wall": wall,
        "memory": memory,
        "resume_cpu": resume / rollouts,
        "resume_memory": peak_memory(),
    }


def measure(rollouts: int, concurrency: int, *, together: bool = False) -> dict[str, float]:
    """Run a case in a new process."""
    command = [sys.executable, "-m", "benchmarks.engine", "--case", str(rollouts), str(concurrency)]
    if together:
        command.append("--together")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    costs: dict[str, float] = json.loads(done.stdout)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the engine.")
    parser.add_argument("--case", nargs=2, type=int, metavar=("ROLLOUTS", "CONCURRENCY"))
    parser.add_argument("--together", action="store_true", help="hold the first ones in flight")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(run(case(*arguments.case, together=arguments.together))))
        return

    figures = Figures()
    small, middle, large = (measure(size, CONCURRENCY) for size in (SMALL, MIDDLE, LARGE))
    figures.report("engine.cpu_per_rollout_200k", middle["cpu"] * 1e6, "us", goal=60.0)
    figures.report("engine.cpu_per_rollout_1m", large["cpu"] * 1e6, "us", goal=60.0)
    figures.report("engine.cpu_1m_over_10k", large["cpu"] / small["cpu"], "ratio", goal=1.25)
    figures.report("engine.rollouts_per_second", MIDDLE / middle["wall"], "1/s")
    figures.report("engine.peak_memory_10k", small["memory"], "MiB")
    figures.report("engine.peak_memory_1m", large["memory"], "MiB")
    growth = large["memory"] - small["memory"]
    figures.report("engine.memory_growth_10k_to_1m", growth, "MiB", goal=30.0)

    figures.report("engine.resume_cpu_per_rollout_1m", large["resume_cpu"] * 1e6, "us", goal=60.0)
    growth = large["resume_memory"] - small["memory"]
    figures.report("engine.memory_growth_resuming_1m", growth, "MiB", goal=30.0)

    crowd = measure(2 * IN_FLIGHT, IN_FLIGHT, together=True)
    per_rollout = (crowd["memory"] - small["memory"]) * 1024 / IN_FLIGHT
    figures.report("engine.memory_per_rollout_in_flight", per_rollout, "KiB")
    figures.report("engine.cpu_per_rollout_10k_in_flight", crowd["cpu"] * 1e6, "us", goal=60.0)
    figures.exit()


if __name__ == "__main__":
    main()
