"""How well the simulation of a cluster predicts a real collection.

`ng_collect_rollouts` collects tool rollouts in worker processes, with a model in another process
that answers so many requests at once, each after a lognormal time (`saturating_model`). Some of the
worker processes are killed in mid-run. Then the same is simulated. What the simulation cannot know
it gets from two small runs that were measured before: the time that a step takes besides the model,
and the time until a killed process is replaced does not matter, because the others take its work.

*Compared* are the time from the first attempt to the end of the last, the rollouts per second, and
the attempts, with those that failed. The model has slots enough in one case and saturates in the
other.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.request import urlopen

import msgspec

from benchmarks import contenders
from benchmarks.cluster_settings import Cluster
from benchmarks.cluster_simulation import Simulated, simulate
from benchmarks.figure import Figures
from benchmarks.process_costs import descendants
from rollgym.records import Failed
from rollgym.rollouts.paths import RolloutPaths
from rollgym.store import run_records
from tests.counterparts.processes import running_module

GOAL = 0.15
CALLS = 2
PATIENCE = 600.0
POLL = 0.02
WORKER = b"rollgym.cluster.process"
QUICK = {"nodes": 4, "sessions": 4, "rollouts": 60, "endpoint_slots": 8, "losses_per_hour": 60.0}


class Case(NamedTuple):
    """A collection: `kills` are the seconds after the first request at which a process is killed.

    A request takes a lognormal time with the mean `seconds` once it has one of the `model_slots`.
    """

    name: str
    rollouts: int
    slots: int
    processes: int
    model_slots: int
    seconds: float
    sigma: float
    kills: tuple[float, ...]


FULL = (
    Case("unsaturated", 1_200, 64, 4, 200, 1.0, 0.5, (8.0, 16.0, 24.0)),
    Case("saturated", 800, 64, 4, 32, 1.0, 0.5, (10.0, 20.0, 30.0)),
)
SMALL = (Case("saturated", 60, 16, 2, 8, 0.2, 0.3, (1.0,)),)


class Measured(NamedTuple):
    """What a real collection came to; `attempt_seconds` are the mean of those that completed."""

    wall: float
    attempts: int
    failed_attempts: int
    completed: int
    attempt_seconds: float
    call_seconds: float


def compare(figures: Figures, *, quick: bool) -> None:
    """Measure and simulate every case, and report how far they are apart."""
    for case in SMALL if quick else FULL:
        overhead = measure_overhead(case)
        measured, kills = collect(case)
        simulated = simulate(as_cluster(case, overhead, kills))
        _report(figures, case, overhead, measured, simulated)


def _report(
    figures: Figures, case: Case, overhead: float, measured: Measured, simulated: Simulated
) -> None:
    name = f"cluster.{case.name}"
    figures.report(f"{name}.overhead_of_a_call", overhead, "s")
    failed = simulated.coverage.attempts - simulated.coverage.completed
    for what, unit, real, predicted, compared in (
        ("wall", "s", measured.wall, simulated.wall, True),
        (
            "rollouts_per_second",
            "1/s",
            measured.completed / measured.wall,
            simulated.coverage.completed / simulated.wall,
            True,
        ),
        ("attempts", "attempts", measured.attempts, simulated.coverage.attempts, True),
        ("failed_attempts", "attempts", measured.failed_attempts, failed, False),
    ):
        figures.report(f"{name}.{what}.measured", real, unit)
        figures.report(f"{name}.{what}.simulated", predicted, unit)
        if compared:
            figures.report(f"{name}.{what}.difference", abs(predicted / real - 1), "ratio", GOAL)


def as_cluster(case: Case, overhead: float, kills: Sequence[tuple[float, int]]) -> Cluster:
    """The case as the simulation has it: a worker process is a node without a limit of its own."""
    return Cluster(
        nodes=case.processes,
        sessions=case.slots,
        slots=case.slots,
        rollouts=case.rollouts,
        steps=float(CALLS),
        steps_sigma=0.0,
        page_seconds=overhead,
        page_sigma=0.0,
        tokens=case.seconds,
        tokens_sigma=case.sigma,
        endpoint_slots=case.model_slots,
        slot_tokens=1.0,
        endpoint_queue=1_000_000,
        endpoint_errors=0.0,
        losses_per_hour=0.0,
        losses=tuple(kills),
        lost_as="worker",
        notice_seconds=0.1,
        repair_seconds=2.0,
        hanging=0.0,
        completion_threshold=1.0,
    )


def measure_overhead(case: Case) -> float:
    """The seconds of a call that are not the model's, with a model that does not saturate."""
    rollouts = max(2 * case.slots, case.rollouts // 8)
    small = case._replace(rollouts=rollouts, model_slots=case.slots, kills=())
    measured, _ = collect(small)
    return max(0.0, measured.attempt_seconds / CALLS - measured.call_seconds)


def collect(case: Case) -> tuple[Measured, list[tuple[float, int]]]:
    """Collect a case; returns also when which process was killed."""
    options = ("--slots", "--seconds", "--sigma")
    values = (case.model_slots, case.seconds, case.sigma)
    model = [text for pair in zip(options, map(str, values), strict=True) for text in pair]
    with (
        TemporaryDirectory(prefix="rollgym-bench-") as name,
        running_module("benchmarks.saturating_model", *model) as url,
    ):
        folder = Path(name)
        contenders.write_rows(folder / "rows.jsonl", case.rollouts)
        with _collecting(case, folder, url) as process:
            kills = _kill(case, process, url)
            if process.wait(PATIENCE):
                raise RuntimeError(f"the collection failed:\n{(folder / 'said').read_text()}")
        return _measured(folder, _load(url)), kills


@contextmanager
def _collecting(case: Case, folder: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    rollouts = contenders.Case(f"{url}/v1", folder / "rows.jsonl", case.rollouts, case.slots)
    command = contenders.collect_command(
        rollouts,
        folder / "rollouts.jsonl",
        *contenders.servers_for(rollouts.url),
        f"+processes={case.processes}",
        "+preflight=false",
    )
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _kill(case: Case, process: subprocess.Popen[bytes], url: str) -> list[tuple[float, int]]:
    """Kill a worker process at each time of the case; returns when, and a number for each."""
    while process.poll() is None and not _load(url)["requests"]:
        time.sleep(POLL)
    began = time.monotonic()
    kills = []
    for number, seconds in enumerate(case.kills):
        while process.poll() is None and time.monotonic() < began + seconds:
            time.sleep(POLL)
        workers = [pid for pid in descendants(process.pid) if _is_worker(pid)]
        if process.poll() is None and workers:
            os.kill(workers[number % len(workers)], signal.SIGKILL)
            kills.append((time.monotonic() - began, number % case.processes))
    return kills


def _is_worker(pid: int) -> bool:
    try:
        return WORKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False  # it has ended just now


def _load(url: str) -> dict[str, Any]:
    with urlopen(f"{url}/v1/load", timeout=30) as answer:
        load: dict[str, Any] = msgspec.json.decode(answer.read())
        return load


def _measured(folder: Path, load: dict[str, Any]) -> Measured:
    run = RolloutPaths.of(folder / "rollouts.jsonl").run
    attempts = [entry.attempt for entry, _ in run_records(run)]
    failed = sum(isinstance(each.outcome, Failed) for each in attempts)
    done = [each.seconds for each in attempts if not isinstance(each.outcome, Failed)]
    first = min(each.started for each in attempts)
    last = max(each.started + each.seconds for each in attempts)
    return Measured(
        wall=last - first,
        attempts=len(attempts),
        failed_attempts=failed,
        completed=len(done),
        attempt_seconds=sum(done) / len(done),
        call_seconds=load["mean_seconds"] + load["mean_wait"],
    )
