"""What a large cluster would achieve, by simulation; and how well the simulation predicts.

Without `--measure` it simulates the cluster that the options describe, by default 100 nodes with
64 sessions each (see `cluster_simulation`). With it, it collects tool rollouts in worker processes
with a model that saturates, kills some of the processes, simulates the same, and reports how far
apart the two are (see `cluster_measured`).

    python -m benchmarks.cluster                  # a simulation; about a minute
    python -m benchmarks.cluster --nodes 20 --losses-per-hour 60 --endpoint-slots 1000
    python -m benchmarks.cluster --measure        # exits 1 when a goal is missed
"""

import argparse
import logging
import sys
from typing import Any

import msgspec

from benchmarks.cluster_measured import QUICK, compare
from benchmarks.cluster_settings import MEANINGS, Cluster
from benchmarks.cluster_simulation import Simulated, simulate
from benchmarks.figure import Figures


def report(figures: Figures, name: str, simulated: Simulated) -> None:
    """Print what a simulation came to."""
    tell = figures.report
    tell(f"{name}.virtual_hours", simulated.wall / 3600, "h")
    tell(f"{name}.rollouts_per_hour", simulated.completed_per_hour, "1/h")
    tell(f"{name}.completed", simulated.coverage.completed, "rollouts")
    tell(f"{name}.failed", simulated.coverage.failed, "rollouts")
    tell(f"{name}.omitted", simulated.coverage.omitted, "rollouts")
    tell(f"{name}.unresolved", simulated.coverage.unresolved, "rollouts")
    tell(f"{name}.slots_busy", simulated.busy, "share")
    tell(f"{name}.slots_busy_before_the_tail", simulated.busy_before_tail, "share")
    tell(f"{name}.endpoint_busy", simulated.endpoint_busy, "share")
    tell(f"{name}.tokens_per_second", simulated.tokens / simulated.wall, "1/s")
    tell(f"{name}.tokens_wasted", simulated.tokens_wasted, "share")
    rejected = simulated.rejected_requests / max(1, simulated.requests)
    tell(f"{name}.requests_rejected", rejected, "share")
    tell(f"{name}.nodes_lost", simulated.lost_nodes, "nodes")
    tell(f"{name}.retries_per_rollout", simulated.retries / simulated.coverage.expected, "ratio")
    tell(f"{name}.slot_time_wasted", sum(simulated.wasted.values()), "share")
    for cause, share in simulated.wasted.items():
        tell(f"{name}.slot_time_wasted.{cause}", share, "share")
    attempts = simulated.coverage.attempts
    tell(f"{name}.wait_for_a_session", simulated.waited_for_sessions / max(1, attempts), "s")
    tell(f"{name}.cpu_of_the_simulation", simulated.cpu, "s")
    tell(f"{name}.memory_of_the_simulation", simulated.memory, "MiB")


def options() -> argparse.ArgumentParser:
    """The command line: a flag for every setting of a cluster."""
    parser = argparse.ArgumentParser(description="Simulate a large cluster.")
    for field in msgspec.structs.fields(Cluster):
        if field.name in MEANINGS:
            kind: Any = int if field.type == int | None else type(field.default)
            shown = "" if field.default is None else f" (default: {field.default})"
            parser.add_argument(
                f"--{field.name.replace('_', '-')}",
                type=kind,
                default=field.default,
                help=MEANINGS[field.name] + shown,
                choices=("browser", "worker") if field.name == "lost_as" else None,
            )
    parser.add_argument("--measure", action="store_true", help="compare with a real collection")
    parser.add_argument("--quick", action="store_true", help="a small case; ignore its figures")
    return parser


def main() -> None:
    parser = options()
    chosen = vars(parser.parse_args())
    measure, quick = chosen.pop("measure"), chosen.pop("quick")
    logging.getLogger("rollgym").setLevel(logging.ERROR)
    figures = Figures()
    if measure:
        compare(figures, quick=quick)
    else:
        if quick:
            chosen |= QUICK
        try:
            cluster = msgspec.convert(chosen, Cluster)
        except msgspec.ValidationError as error:
            parser.error(str(error))
        simulated = simulate(cluster)
        report(figures, "cluster", simulated)
        if simulated.coverage.stopped:
            print(f"The collection stopped: {simulated.coverage.stopped}", file=sys.stderr)
    if not quick:
        figures.exit()


if __name__ == "__main__":
    main()
