"""How much sooner web rollouts are collected asynchronously than by synchronous steps.

Both ways collect the same tasks of the bundled sites in the same number of real browser sessions,
one after another, each with new servers and in a process of its own. The model is a policy that
plays recorded solutions and pretends to think, a lognormal time with a mean of 2 s, the same time
for the same step in both ways. Its sigma is 1: of models that think, the longest reply in a hundred
is ten times as long as the median one. `--sigma` gives another; the less replies differ, the less
there is to win. Tasks take from 2 to 28 steps.

- *asynchronous* is `AsyncWebGym`, as scripts/rollout.py runs it: the hardest tasks first, every
  episode at its own pace, a session taken by the next episode as soon as one ends; every rollout
  goes through engine, journal and files of the iteration.
- *lockstep* is what it is compared with, a naive implementation (see `web_lockstep`): the tasks as
  they were drawn, a batch at a time, and a batch steps together.

*CPU* of browsers is that of the browser server and all its processes, Chromium's included, and
start-up too. Together with that of the collecting process, which is also told as *overhead*, it is
compared with a plain Playwright script on full Chromium that plays the same episodes again (see
`web_playwright`).

    python -m benchmarks.web_rollouts            # all figures; exits 1 when a goal is missed
    python -m benchmarks.web_rollouts --quick    # does everything once; its figures mean nothing
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import msgspec

from benchmarks.figure import Figures
from benchmarks.process_costs import tree_costs
from benchmarks.web_contenders import Case, Told, Way
from benchmarks.web_playwright import Played
from benchmarks.web_servers import web_servers
from webgym.rollout.iteration import IterationPaths

FULL_CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SPEEDUP_GOAL = 4.5
CPU_GOAL = 0.5
PLAYED_AT_ONCE = 8
SEED = 0
PATIENCE = 1_800.0
T = TypeVar("T")


class Plan(NamedTuple):
    """How much is collected, and how long the model thinks."""

    episodes: int
    sessions: int
    latency: str


FULL = Plan(96, 16, "lognormal:2.0:1")
QUICK = Plan(4, 2, "lognormal:0.05")


class Result(NamedTuple):
    """What a way of collecting came to; `browser_cpu` in seconds.

    `played` is what a plain script needed for the same browsing, where that was asked for.
    """

    told: Told
    browser_cpu: float
    played: Played | None


def contend(way: Way, plan: Plan, chromium: str | None = None) -> Result:
    """Collect in this way; and play it again, where there is a full Chromium for it."""
    with (
        TemporaryDirectory(prefix="rollgym-bench-") as name,
        web_servers(Path(name), plan.sessions, plan.latency, SEED) as servers,
    ):
        case = Case(
            way=way,
            episodes=plan.episodes,
            sessions=plan.sessions,
            seed=SEED,
            folder=name,
            sites_url=servers.sites.url,
            browsers_url=servers.browsers.url,
            policy_url=servers.policy.url,
        )
        told = _run(Told, "web_contenders", msgspec.json.encode(case).decode())
        cpu = tree_costs(servers.browsers.pid).cpu
        played = None
        if chromium is not None:
            run = IterationPaths(Path(name), "train", 0).run
            played = _run(Played, "web_playwright", str(run), str(PLAYED_AT_ONCE), chromium)
    return Result(told, cpu, played)


def _run(answer: type[T], module: str, *arguments: str) -> T:
    """What a module says at its end."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=answer)


def compare(figures: Figures, plan: Plan) -> None:
    """Collect in both ways and tell the figures."""
    ours = contend("asynchronous", plan, find_full_chromium())
    naive = contend("lockstep", plan)
    speedup = naive.told.wall / ours.told.wall
    figures.report("web.speedup", speedup, "ratio", SPEEDUP_GOAL, at_least=True)
    thinking = ours.told.model * ours.told.steps / (plan.sessions * ours.told.wall)
    figures.report("web.asynchronous.share_of_time_with_model", thinking, "ratio")
    if ours.played is None:
        print("without a full Chromium there is no comparison with Playwright", file=sys.stderr)
    else:
        tell_of_playwright(figures, ours, ours.played)
    tell(figures, "web.asynchronous", ours, plan)
    tell(figures, "web.lockstep", naive, plan)


def tell_of_playwright(figures: Figures, ours: Result, played: Played) -> None:
    """Ours is counted with the process that collects, theirs with the script."""
    per_step = (ours.browser_cpu + ours.told.cpu) / ours.told.steps
    theirs = played.cpu / played.steps
    figures.report("web.cpu_over_playwright", per_step / theirs, "ratio", CPU_GOAL)
    figures.report("web.playwright.cpu_per_step", theirs, "s")
    figures.report("web.playwright.same_pages", played.same / played.pages, "ratio")


def tell(figures: Figures, name: str, result: Result, plan: Plan) -> None:
    told = result.told
    lost = plan.episodes - told.completed
    figures.report(f"{name}.not_completed", lost, "episodes", 0)
    figures.report(f"{name}.solved", told.solved, "episodes")
    figures.report(f"{name}.steps", told.steps, "steps")
    figures.report(f"{name}.wall", told.wall, "s")
    figures.report(f"{name}.steps_per_second", told.steps / told.wall, "1/s")
    figures.report(f"{name}.model_per_step", told.model, "s")
    figures.report(f"{name}.browser_per_step", told.browser, "s")
    figures.report(f"{name}.browser_cpu_per_step", result.browser_cpu / told.steps, "s")
    figures.report(f"{name}.overhead_cpu_per_step", told.cpu / told.steps, "s")
    figures.report(f"{name}.peak_memory", told.memory, "MB")


def find_full_chromium() -> str | None:
    return next(filter(None, map(shutil.which, FULL_CHROMIUM)), None)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the collection of web rollouts.")
    parser.add_argument("--quick", action="store_true", help="do everything once, on few tasks")
    parser.add_argument("--sigma", type=float, default=1.0, help="of the model's latency (1)")
    given = parser.parse_args()
    quick: bool = given.quick
    plan = FULL._replace(latency=f"lognormal:2.0:{given.sigma:g}")
    figures = Figures()
    compare(figures, QUICK if quick else plan)
    if not quick:
        figures.exit()


if __name__ == "__main__":
    main()
