"""The cost of a browser step, compared with a plain Playwright script on full Chromium.

Both contenders do the same tasks on the same pages (see `browser_contenders`), one after another in
each round, in separate processes. CPU is that of all their processes, including Chromium and
start-up. Ratios are computed within a round, and the median of the rounds is reported.

    python -m benchmarks.browser             # all figures; exits 1 when a goal is missed
    python -m benchmarks.browser --quick     # does everything once; ignore its figures
    python -m benchmarks.browser --hold 10   # 64 sessions kept busy for 10 minutes: memory
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import msgspec

from benchmarks.browser_contenders import ContenderCosts
from benchmarks.browser_hold import hold
from benchmarks.figure import Figures

TASKS = 60
SESSIONS = 8
HELD_SESSIONS = 64
QUICK_SESSIONS = 4
ROUNDS = 3
CPU_GOAL = 0.5
PATIENCE = 600.0
FULL_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def pages() -> Iterator[str]:
    """Serve the pages to browse for the length of the block; yields their address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.browser_pages"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()


def contend(name: str, url: str, tasks: int, chromium: str) -> ContenderCosts:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.browser_contenders"),
            *(name, url, str(tasks), str(SESSIONS), chromium),
        ],
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=ContenderCosts)


def compare(figures: Figures, tasks: int, rounds: int, chromium: str) -> None:
    ratios, our_costs, their_costs = [], [], []
    with pages() as url:
        for _ in range(rounds):
            theirs = contend("playwright", url, tasks, chromium)
            ours = contend("rollgym", url, tasks, chromium)
            ratios.append((ours.cpu / ours.steps) / (theirs.cpu / theirs.steps))
            our_costs.append(ours)
            their_costs.append(theirs)
    figures.report("browser.cpu_over_playwright", median(ratios), "ratio", CPU_GOAL)
    for name, costs in (("rollgym", our_costs), ("playwright", their_costs)):
        goal = 0 if name == "rollgym" else None
        figures.report(f"browser.{name}.failed_steps", sum(t.failed for t in costs), "steps", goal)
        report(figures, f"browser.{name}", costs)


def report(figures: Figures, name: str, costs: list[ContenderCosts]) -> None:
    figures.report(f"{name}.cpu_per_step", median([t.cpu / t.steps for t in costs]), "s")
    figures.report(f"{name}.wall_per_step", median([s for t in costs for s in t.step_seconds]), "s")
    figures.report(f"{name}.steps_per_second", median([t.steps / t.wall for t in costs]), "1/s")
    figures.report(
        f"{name}.session_start", median([s for t in costs for s in t.start_seconds]), "s"
    )
    per_session = [(t.memory - t.idle_memory) / SESSIONS / 2**20 for t in costs]
    figures.report(f"{name}.memory_per_session", median(per_session), "MiB")


def find_full_chromium() -> str | None:
    return next(filter(None, map(shutil.which, FULL_CHROMIUM)), None)


def compare_with_playwright(figures: Figures, *, quick: bool) -> None:
    chromium = find_full_chromium()
    if chromium is None:
        sys.exit(f"the comparison needs a full Chromium on PATH: {', '.join(FULL_CHROMIUM)}")
    tasks, rounds = (SESSIONS, 1) if quick else (TASKS, ROUNDS)
    compare(figures, tasks, rounds, chromium)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the browser server.")
    parser.add_argument("--quick", action="store_true", help="do everything once")
    parser.add_argument("--hold", type=float, metavar="MINUTES", help="hold 64 sessions instead")
    arguments = parser.parse_args()
    figures = Figures()
    if arguments.hold is not None:
        with pages() as url:
            sessions = QUICK_SESSIONS if arguments.quick else HELD_SESSIONS
            asyncio.run(hold(figures, url, arguments.hold * 60, sessions))
    else:
        compare_with_playwright(figures, quick=arguments.quick)
    if not arguments.quick:
        figures.exit()


if __name__ == "__main__":
    main()
