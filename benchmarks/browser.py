"""What a step in a browser costs, against a plain Playwright script on full Chromium.

Both contenders do the same tasks on the same pages (see `browser_contenders`), one after another in
each round, in processes of their own; CPU is that of all their processes, Chromium's included, and
start-up too. Ratios are taken within a round, and the median of the rounds is told.

    python -m benchmarks.browser             # all figures; exits 1 when a goal is missed
    python -m benchmarks.browser --quick     # does everything once; its figures mean nothing
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

from benchmarks.browser_contenders import Told
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
    """The pages to browse, for as long as the block lasts; gives their address."""
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


def contend(name: str, url: str, tasks: int, chromium: str) -> Told:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.browser_contenders"),
            *(name, url, str(tasks), str(SESSIONS), chromium),
        ],
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Told)


def compare(figures: Figures, tasks: int, rounds: int, chromium: str) -> None:
    ratios, ours_told, theirs_told = [], [], []
    with pages() as url:
        for _ in range(rounds):
            theirs = contend("playwright", url, tasks, chromium)
            ours = contend("rollgym", url, tasks, chromium)
            ratios.append((ours.cpu / ours.steps) / (theirs.cpu / theirs.steps))
            ours_told.append(ours)
            theirs_told.append(theirs)
    figures.report("browser.cpu_over_playwright", median(ratios), "ratio", CPU_GOAL)
    for name, told in (("rollgym", ours_told), ("playwright", theirs_told)):
        goal = 0 if name == "rollgym" else None
        figures.report(f"browser.{name}.failed_steps", sum(t.failed for t in told), "steps", goal)
        tell(figures, f"browser.{name}", told)


def tell(figures: Figures, name: str, told: list[Told]) -> None:
    figures.report(f"{name}.cpu_per_step", median([t.cpu / t.steps for t in told]), "s")
    figures.report(f"{name}.wall_per_step", median([s for t in told for s in t.step_seconds]), "s")
    figures.report(f"{name}.steps_per_second", median([t.steps / t.wall for t in told]), "1/s")
    figures.report(f"{name}.session_start", median([s for t in told for s in t.start_seconds]), "s")
    per_session = [(t.memory - t.idle_memory) / SESSIONS / 2**20 for t in told]
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
