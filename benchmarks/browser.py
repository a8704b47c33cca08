"""The cost of a browser step, compared with a plain Playwright script.

All contenders have the same browser binary, flags and picture format, and do the same tasks on the
same pages (see `browser_contenders`), in separate processes. One runs after the other in each
round, in alternating order. The third one, a bare DevTools client, shows the floor: what the
browser itself costs when nothing else is done (`browser_bare`). CPU is that of all their processes,
including Chromium and start-up. Ratios are computed within a round; the median of the rounds is
reported, with the least and the greatest.

What differs is what each makes the browser do. Our server takes PNGs with `optimizeForSpeed`: the
same pixels, compressed faster. Playwright has no such option. The script waits up to 80 ms for a
navigation after a click, and then until the page has loaded; our server also waits until requests,
timers and animations of the step have ended and nothing changes any more.

    python -m benchmarks.browser             # all figures; exits 1 when a goal is missed
    python -m benchmarks.browser --quick     # does everything once; ignore its figures
    python -m benchmarks.browser --hold 10   # 64 sessions kept busy for 10 minutes: memory
"""

import argparse
import asyncio
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
SESSIONS = (8, 32)
HELD_SESSIONS = 64
QUICK_SESSIONS = 4
ROUNDS = 4
CPU_GOAL = 0.6
PATIENCE = 600.0


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


def contend(name: str, url: str, tasks: int, sessions: int, *steps: int) -> ContenderCosts:
    done = subprocess.run(
        [
            *(sys.executable, "-m", f"benchmarks.browser_{name}"),
            *(url, *map(str, (tasks, sessions, *steps))),
        ],
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=ContenderCosts)


def compare(figures: Figures, tasks: int, rounds: int, sessions: int) -> None:
    costs: dict[str, list[ContenderCosts]] = {"rollgym": [], "playwright": [], "bare": []}
    with pages() as url:
        for number in range(rounds):
            names = sorted(costs, reverse=number % 2 == 0)
            for name in names:
                costs[name].append(contend(name, url, tasks, sessions))
    at = f"browser.{sessions}_sessions"
    ratios = over_playwright(costs, "rollgym")
    figures.report(f"{at}.cpu_over_playwright", median(ratios), "ratio", CPU_GOAL)
    figures.report(f"{at}.cpu_over_playwright_least", min(ratios), "ratio")
    figures.report(f"{at}.cpu_over_playwright_greatest", max(ratios), "ratio")
    for name, spent in costs.items():
        goal = 0 if name == "rollgym" else None
        figures.report(f"{at}.{name}.failed_steps", sum(t.failed for t in spent), "steps", goal)
        report(figures, f"{at}.{name}", spent, sessions)
    floor = median(over_playwright(costs, "bare"))
    figures.report(f"{at}.bare.cpu_over_playwright", floor, "ratio")


def over_playwright(costs: dict[str, list[ContenderCosts]], name: str) -> list[float]:
    """The CPU per step of a contender relative to Playwright's, for each round."""
    return [
        (spent.cpu / spent.steps) / (theirs.cpu / theirs.steps)
        for spent, theirs in zip(costs[name], costs["playwright"], strict=True)
    ]


def report(figures: Figures, name: str, costs: list[ContenderCosts], sessions: int) -> None:
    figures.report(f"{name}.cpu_per_step", median([t.cpu / t.steps for t in costs]), "s")
    figures.report(f"{name}.wall_per_step", median([s for t in costs for s in t.step_seconds]), "s")
    figures.report(f"{name}.steps_per_second", median([t.steps / t.wall for t in costs]), "1/s")
    figures.report(
        f"{name}.session_start", median([s for t in costs for s in t.start_seconds]), "s"
    )
    per_session = [(t.memory - t.idle_memory) / sessions / 2**20 for t in costs]
    figures.report(f"{name}.memory_per_session", median(per_session), "MiB")


def compare_with_playwright(figures: Figures, *, quick: bool) -> None:
    if quick:
        compare(figures, QUICK_SESSIONS, 1, QUICK_SESSIONS)
        return
    for sessions in SESSIONS:
        compare(figures, max(TASKS, 3 * sessions), ROUNDS, sessions)


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
