"""What collecting costs beside the calls of the model, measured against a bare loop.

The model is another process on this machine; it asks for one tool call, then answers, at once. Two
commands collect the same rollouts: a loop that does nothing but that (see `bare_loop`), and
`ng_collect_rollouts`, with the servers in its process or in that of an `ng_run`.

*CPU per rollout* is the slope between a large and a small run: what the start costs is in both, and
falls out; it is a figure of its own. Each command's large run takes a few seconds, so that
the slope is not noise. *Ratios* are taken within a round, in which the commands run one after
another, in the opposite order in every other round. The median of the rounds is reported, with the
least and the greatest: a neighbour on the machine slows all commands of a round, or one of them in
one round. *Throughput* is such a slope, too. It
is compared with what the latency of the model allows, and with one core for the CPU that a rollout
took in the same runs; the lower of the two is the limit, and the figure's name says which it was.
Of its rounds the best is reported, because a neighbour can only slow it down.

    python -m benchmarks.collect            # all figures; exits 1 when a goal is missed
    python -m benchmarks.collect --quick    # does everything once; its figures mean nothing
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.contenders import (
    Case,
    Contender,
    Result,
    bare_loop,
    own_servers,
    servers_of_ng_run,
    write_rows,
)
from benchmarks.figure import Figures
from tests.counterparts.processes import running

CALLS_PER_ROLLOUT = 2
LARGEST_MEMORY = 250.0
FIRST_ROLLOUT_WITHIN = 2.0
OWN_SERVERS_GOAL = 2.5
NG_RUN_GOAL = 6.0
SHARE_GOAL = 0.9


class Plan(NamedTuple):
    """How much is measured. A pair of numbers is the rollouts of a small and of a large run."""

    rounds: int
    concurrencies: tuple[int, ...]
    bare: tuple[int, int]
    own: tuple[int, int]
    served: tuple[int, int]
    latency: float
    crowd: int
    crowd_rollouts: tuple[int, int]
    crowd_rounds: int

    @property
    def rows(self) -> int:
        return max(self.bare + self.own + self.served + self.crowd_rollouts)


FULL = Plan(
    rounds=5,
    concurrencies=(64, 512),
    bare=(1_000, 12_000),
    own=(400, 6_000),
    served=(400, 2_400),
    latency=0.2,
    crowd=2_000,
    crowd_rollouts=(4_000, 16_000),
    crowd_rounds=3,
)
QUICK = Plan(
    rounds=1,
    concurrencies=(8,),
    bare=(10, 40),
    own=(10, 40),
    served=(10, 40),
    latency=0.02,
    crowd=20,
    crowd_rollouts=(20, 60),
    crowd_rounds=1,
)


class Pair(NamedTuple):
    """A small and a large run of the same command."""

    small_rollouts: int
    small: Result
    rollouts: int
    large: Result

    @property
    def cpu_per_rollout(self) -> float:
        return (self.large.cpu - self.small.cpu) / (self.rollouts - self.small_rollouts)

    @property
    def start_cpu(self) -> float:
        return self.small.cpu - self.small_rollouts * self.cpu_per_rollout

    @property
    def cpu_bound(self) -> float:
        """The rollouts per second that one core would allow."""
        return 1 / self.cpu_per_rollout

    @property
    def throughput(self) -> float:
        return (self.rollouts - self.small_rollouts) / (self.large.wall - self.small.wall)


class Benchmark:
    """Runs what a plan says and reports the figures."""

    def __init__(self, plan: Plan, rows: Path) -> None:
        self.figures = Figures()
        self._plan = plan
        self._rows = rows

    def run(self) -> None:
        with running("model", "--mode", "bench") as url:
            for concurrency in self._plan.concurrencies:
                self._against_bare_loop(url, concurrency)
        with running("model", "--mode", "bench", "--latency", str(self._plan.latency)) as url:
            self._crowd(url)

    def _against_bare_loop(self, url: str, concurrency: int) -> None:
        plan = self._plan
        bare: list[Pair] = []
        own: list[Pair] = []
        served: list[Pair] = []
        contenders: list[tuple[Contender, tuple[int, int], list[Pair]]] = [
            (bare_loop, plan.bare, bare),
            (own_servers, plan.own, own),
            (servers_of_ng_run, plan.served, served),
        ]
        for number in range(plan.rounds):
            for contender, sizes, pairs in contenders[:: -1 if number % 2 else 1]:
                pairs.append(self._pair(contender, url, sizes, concurrency))
        report, name = self.figures.report, f"collect.{concurrency}_parallel"
        report(f"{name}.bare_loop.cpu_per_rollout", _cpu(bare) * 1e6, "us")
        for kind, goal, pairs in (
            ("own_servers", OWN_SERVERS_GOAL, own),
            ("ng_run", NG_RUN_GOAL, served),
        ):
            ratios = [
                ours.cpu_per_rollout / theirs.cpu_per_rollout
                for ours, theirs in zip(pairs, bare, strict=True)
            ]
            whole = median(pair.large.cpu / pair.rollouts for pair in pairs)
            start = median(pair.start_cpu for pair in pairs)
            memory = max(pair.large.memory for pair in pairs)
            first = median(pair.large.first_rollout for pair in pairs)
            report(f"{name}.{kind}.cpu_per_rollout", _cpu(pairs) * 1e6, "us")
            report(f"{name}.{kind}.cpu_over_bare_loop", median(ratios), "ratio", goal)
            report(f"{name}.{kind}.cpu_over_bare_loop_least", min(ratios), "ratio")
            report(f"{name}.{kind}.cpu_over_bare_loop_greatest", max(ratios), "ratio")
            report(f"{name}.{kind}.cpu_per_rollout_with_start", whole * 1e6, "us")
            report(f"{name}.{kind}.start_cpu", start, "s")
            report(f"{name}.{kind}.peak_memory", memory, "MB", LARGEST_MEMORY)
            report(f"{name}.{kind}.first_rollout", first, "s", FIRST_ROLLOUT_WITHIN)

    def _crowd(self, url: str) -> None:
        """Many rollouts that mostly wait for the model."""
        plan = self._plan
        pairs = [
            self._pair(own_servers, url, plan.crowd_rollouts, plan.crowd)
            for _ in range(plan.crowd_rounds)
        ]
        ideal = plan.crowd / (CALLS_PER_ROLLOUT * plan.latency)
        best = max(pairs, key=lambda pair: pair.throughput / min(ideal, pair.cpu_bound))
        lower = "ideal" if ideal < best.cpu_bound else "cpu_bound"
        share = best.throughput / min(ideal, best.cpu_bound)
        memory = max(pair.large.memory for pair in pairs)
        report, name = self.figures.report, f"collect.{plan.crowd}_parallel_slow_model"
        report(f"{name}.ideal", ideal, "1/s")
        report(f"{name}.cpu_bound", best.cpu_bound, "1/s")
        report(f"{name}.throughput", best.throughput, "1/s")
        report(f"{name}.share_of_{lower}", share, "ratio", SHARE_GOAL, at_least=True)
        report(f"{name}.peak_memory", memory, "MB", LARGEST_MEMORY)

    def _pair(
        self, contender: Contender, url: str, sizes: tuple[int, int], concurrency: int
    ) -> Pair:
        small, large = (Case(f"{url}/v1", self._rows, size, concurrency) for size in sizes)
        return Pair(small.rollouts, contender(small), large.rollouts, contender(large))


def _cpu(pairs: Sequence[Pair]) -> float:
    return median(pair.cpu_per_rollout for pair in pairs)


@contextmanager
def _rows(count: int) -> Iterator[Path]:
    with TemporaryDirectory(prefix="rollgym-bench-") as folder:
        path = Path(folder) / "rows.jsonl"
        write_rows(path, count)
        yield path


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what collecting costs.")
    parser.add_argument("--quick", action="store_true", help="everything once, on few rollouts")
    quick = parser.parse_args().quick
    plan = QUICK if quick else FULL
    with _rows(plan.rows) as rows:
        benchmark = Benchmark(plan, rows)
        benchmark.run()
    if not quick:
        benchmark.figures.exit()


if __name__ == "__main__":
    main()
