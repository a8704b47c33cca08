"""A program with a monitor on its standard error: 1,000 rollouts, some under way, until it ends.

The first argument says how it ends: `finish`, `raise` or `interrupt` (which waits for Ctrl-C).
"""

import sys
import time
from pathlib import Path

from rollgym.engine import AttemptRecorded, CollectionEnded, CollectionStarted, Coverage
from rollgym.records import Attempt, Completed, RolloutKey
from webgym.monitor.task_monitor import TaskMonitor

EXPECTED = 1000
UNDER_WAY = 64


def main(how: str, seconds: float) -> None:
    with TaskMonitor(sys.stderr, title="test run", label=str) as monitor:
        monitor.observe([CollectionStarted(EXPECTED, EXPECTED, 0)])
        done, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            for task in range(done, done + UNDER_WAY):
                monitor.running(RolloutKey(task, 0), "model", 1 + int(time.monotonic()) % 9)
            monitor.observe([_end(done)])
            done = min(done + 1, EXPECTED - UNDER_WAY)
            time.sleep(0.02)
        if how == "raise":
            raise RuntimeError("the run broke")
        if how == "interrupt":
            time.sleep(60)
        monitor.observe([_over()])
    sys.stderr.write(f"CPU {time.process_time():.3f}\n")


def _end(task: int) -> AttemptRecorded:
    attempt = Attempt(
        task=task,
        repeat=0,
        repeats=1,
        attempt=1,
        final=True,
        seed=0,
        started=time.time(),
        seconds=0.0,
        outcome=Completed(float(task % 2)),
    )
    return AttemptRecorded(attempt, Path("journal"), 0, None)


def _over() -> CollectionEnded:
    return CollectionEnded(
        Coverage(
            expected=EXPECTED,
            completed=EXPECTED,
            failed=0,
            omitted=0,
            groups=EXPECTED,
            groups_complete=EXPECTED,
            resumed=0,
            attempts=EXPECTED,
            abandoned=0,
            dropped_events={},
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
