"""What it costs to collect in several processes, measured against one process.

The model answers at once and in process, so nothing but the CPU limits a collection: this is the
worst case for handing attempts out. The same rollouts are collected by one process, by two worker
processes, and, where Ray is installed, by two workers on a local Ray cluster.

*CPU per rollout* is the slope between a large and a small run, over all processes of the command,
so starting them falls out. *Rollouts per second* is a slope, too. *Ratios* are taken within a
round, in which the commands run one after another, in the opposite order in every other round; the
median is reported, with the least and the greatest. *The driver* is the process of the command; the
rollouts per second that its CPU per rollout allows are the most that one driver can collect, with
any number of workers.

The system adds up the CPU of a command and of the processes that it started. Reading all processes
of the machine takes 2 ms, which the workers would lack, so this is done for Ray alone, and seldom.

A local Ray cluster uses some CPU per second, whatever it runs, so on a busy machine the CPU per
rollout with Ray grows. That part is a figure of its own.

Ratios of rollouts per second need two cores that nothing else uses: on a busy machine, two
processes get a larger share of it than one. Ratios of CPU depend on this much less; from them
follows how much faster two processes can be at most, on two cores that they share with the driver.

    python -m benchmarks.processes            # all figures; exits 1 when a goal is missed
    python -m benchmarks.processes --quick    # does everything once; its figures mean nothing
"""

import argparse
import contextlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.contenders import AGENT, ROOT, write_rows
from benchmarks.figure import Figures
from benchmarks.process_costs import descendants, own_cpu, tree_costs

CONFIGS = (
    "responses_api_models/scripted_model/configs/scripted_model.yaml",
    "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml",
)
CONCURRENCY = 64
CORES = 2
"""For two workers; their driver shares these cores."""
SAMPLE_INTERVAL = 0.005
RAY_SAMPLE_INTERVAL = 0.1
PATIENCE = 600.0
SPEEDUP_GOAL = 1.8
CPU_GOAL = 1.15
RAY_CPU_GOAL = 1.5
RAY_SERVERS = (
    b"raylet/raylet",
    b"gcs_server",
    b"/dashboard/",
    b"log_monitor",
    b"runtime_env",
    b"/monitor.py",
)
WAYS: dict[str, tuple[str, ...]] = {
    "one": (),
    "two": ("+processes=2",),
    "ray": ("+launcher=ray", "+processes=2"),
}


class Cost(NamedTuple):
    """CPU seconds of all processes, of the driver alone and of Ray's servers; seconds in all."""

    cpu: float
    driver: float
    cluster: float
    wall: float


class PerRollout(NamedTuple):
    """The same for each rollout."""

    cpu: float
    driver: float
    cluster: float
    wall: float


def measure(way: str, rows: Path, sizes: tuple[int, int]) -> PerRollout:
    small, large = (_collect(way, rows, size) for size in sizes)
    count = sizes[1] - sizes[0]
    return PerRollout(*((b - a) / count for a, b in zip(small, large, strict=True)))


def _collect(way: str, rows: Path, rollouts: int) -> Cost:
    with TemporaryDirectory(prefix="rollgym-bench-") as folder:
        output, said = Path(folder) / "rollouts.jsonl", Path(folder) / "said"
        command = [
            *(sys.executable, "-m", "rollgym.cli.collect"),
            f"+config_paths=[{','.join(CONFIGS)}]",
            "+policy_model.responses_api_models.scripted_model.skill=1.0",
            f"+agent_name={AGENT}",
            f"+input_jsonl_fpath={rows}",
            f"+output_jsonl_fpath={output}",
            f"+limit={rollouts}",
            f"+num_samples_in_parallel={CONCURRENCY}",
            *WAYS[way],
        ]
        with said.open("wb") as written:
            began = time.perf_counter()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
            )
        with_ray = way == "ray"
        tree = driver = cluster = 0.0
        ended = 0
        try:
            while not ended and time.perf_counter() - began < PATIENCE:
                driver = max(driver, own_cpu(process.pid))
                if with_ray:
                    tree = max(tree, tree_costs(process.pid).cpu)
                    cluster = max(cluster, _ray_cpu(process.pid))
                time.sleep(RAY_SAMPLE_INTERVAL if with_ray else SAMPLE_INTERVAL)
                ended, status, used = os.wait4(process.pid, os.WNOHANG)
        finally:
            if not ended:
                process.kill()
                _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        lines = len(set(output.read_bytes().splitlines())) if output.exists() else 0
        if process.returncode or lines != rollouts:
            raise RuntimeError(f"{way}: {lines} of {rollouts} rollouts:\n{said.read_text()}")
        # Some of Ray's processes are not the command's own children, so it does not count them.
        cpu = tree if with_ray else used.ru_utime + used.ru_stime
        return Cost(cpu, driver, cluster, wall)


def _ray_cpu(root: int) -> float:
    """The CPU seconds of Ray's own servers, which do not run attempts."""
    cpu = 0.0
    for pid in descendants(root):
        with contextlib.suppress(OSError):  # it has ended just now
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if any(name in command for name in RAY_SERVERS):
                cpu += own_cpu(pid)
    return cpu


def run(figures: Figures, rows: Path, rounds: int, sizes: tuple[int, int], ways: list[str]) -> None:
    """Measure every way in every round, and report."""
    measured: dict[str, list[PerRollout]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in ways[:: -1 if number % 2 else 1]:
            measured[way].append(measure(way, rows, sizes))
    for way, costs in measured.items():
        driver = median(each.driver for each in costs)
        report = figures.report
        report(f"processes.{way}.cpu_per_rollout", median(c.cpu for c in costs) * 1e6, "us")
        report(f"processes.{way}.rollouts_per_second", median(1 / c.wall for c in costs), "1/s")
        report(f"processes.{way}.driver_cpu_per_rollout", driver * 1e6, "us")
        report(f"processes.{way}.most_of_one_driver", 1 / driver, "1/s")
        if way == "one":
            continue
        pairs = list(zip(costs, measured["one"], strict=True))
        cpu = [ours.cpu / theirs.cpu for ours, theirs in pairs]
        faster = [theirs.wall / ours.wall for ours, theirs in pairs]
        _ratios(figures, f"processes.{way}.cpu", cpu, RAY_CPU_GOAL if way == "ray" else CPU_GOAL)
        if way == "ray":
            itself = median(each.cluster for each in costs)
            report("processes.ray.cpu_of_ray_itself", itself * 1e6, "us")
            rest = [(ours.cpu - ours.cluster) / theirs.cpu for ours, theirs in pairs]
            _ratios(figures, "processes.ray.cpu_without_ray_itself", rest, None)
        allowed = [CORES * theirs.cpu / ours.cpu for ours, theirs in pairs]
        report(f"processes.{way}.speedup_that_cpu_allows", median(allowed), "ratio")
        goal = SPEEDUP_GOAL if way == "two" else None
        _ratios(figures, f"processes.{way}.speedup", faster, goal, at_least=True)


def _ratios(
    figures: Figures,
    name: str,
    ratios: Sequence[float],
    goal: float | None,
    *,
    at_least: bool = False,
) -> None:
    figures.report(name, median(ratios), "ratio", goal, at_least=at_least)
    figures.report(f"{name}_least", min(ratios), "ratio")
    figures.report(f"{name}_greatest", max(ratios), "ratio")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what several processes cost.")
    parser.add_argument("--quick", action="store_true", help="everything once, on few rollouts")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--large", type=int, default=6_000, help="rollouts of a large run")
    options = parser.parse_args()
    sizes = (20, 60) if options.quick else (1_000, options.large)
    ways = ["one", "two"] + ["ray"] * (importlib.util.find_spec("ray") is not None)
    figures = Figures()
    os.chdir(ROOT)
    with TemporaryDirectory(prefix="rollgym-bench-") as folder:
        rows = Path(folder) / "rows.jsonl"
        write_rows(rows, sizes[1])
        run(figures, rows, 1 if options.quick else options.rounds, sizes, ways)
    if not options.quick:
        figures.exit()


if __name__ == "__main__":
    main()
