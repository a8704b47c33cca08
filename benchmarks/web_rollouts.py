"""How much sooner web rollouts are collected by our engine than in two simpler ways.

All ways collect the same tasks of the bundled sites in the same order, hardest first, in the same
number of real browser sessions, one after another, each with new servers and in a process of its
own. The model is a policy that plays recorded solutions and pretends to think, a lognormal time,
the same time for the same step in all ways. The longest reply in a hundred is ten times as long as
the median one with a sigma of 1, three times with 0.5, twice with 0.3.

- *asynchronous* is `AsyncWebGym`, as scripts/rollout.py runs it; every rollout goes through engine,
  journal and files of the iteration.
- *refill* and *lockstep* are the baselines of `web_baselines`.

Each sigma is measured in several rounds, each with other tasks and other times to think. Ratios are
those of wall times within a round. To keep the command within minutes, the model thinks for 0.7 s
on average, and tasks of the hardest difficulties are not drawn: with so few episodes, the longest
one would decide how long a round takes in every way.

Everything is measured twice. The sites check their tasks themselves, in milliseconds. *Judged* is
the same with the time of a model as judge: three replies, each of which takes as long as one of the
acting model.

*CPU* is that of the browser server with all its processes and of the collecting process, from the
start. It is compared with a plain Playwright script that plays the episodes of the first round
again (see `web_playwright`).

    python -m benchmarks.web_rollouts            # all figures; exits 1 when a goal is missed
    python -m benchmarks.web_rollouts --only-judged
    python -m benchmarks.web_rollouts --quick    # does everything once; its figures mean nothing
"""

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import msgspec

from benchmarks.figure import Figures
from benchmarks.process_costs import tree_costs
from benchmarks.web_contenders import WAYS, Case, Told, Way
from benchmarks.web_playwright import Played
from benchmarks.web_servers import web_servers
from webgym.rollout.iteration import IterationPaths

GOAL = 1.0
CPU_GOAL = 0.5
PLAYED_AT_ONCE = 8
PATIENCE = 1_800.0
T = TypeVar("T")


class Plan(NamedTuple):
    """How much is collected, and how long the model thinks: mean seconds, and sigmas."""

    episodes: int
    sessions: int
    thinks: float
    sigmas: tuple[float, ...]
    rounds: int


FULL = Plan(24, 8, 0.7, (0.3, 0.5, 1.0), 3)
QUICK = Plan(3, 2, 0.05, (1.0,), 1)


class Result(NamedTuple):
    """What a way of collecting came to; `browser_cpu` in seconds.

    `played` is what a plain script needed for the same browsing, where that was asked for.
    """

    told: Told
    browser_cpu: float
    played: Played | None


def contend(
    way: Way, plan: Plan, sigma: float, seed: int, *, judged: bool = False, play: bool = False
) -> Result:
    """Collect in this way; with `play`, play it again with Playwright."""
    latency = f"lognormal:{plan.thinks:g}:{sigma:g}"
    with (
        TemporaryDirectory(prefix="rollgym-bench-") as name,
        web_servers(Path(name), plan.sessions, latency, seed) as servers,
    ):
        case = Case(
            way=way,
            episodes=plan.episodes,
            sessions=plan.sessions,
            seed=seed,
            judge=latency if judged else "",
            folder=name,
            sites_url=servers.sites.url,
            browsers_url=servers.browsers.url,
            policy_url=servers.policy.url,
        )
        told = answered(Told, "web_contenders", msgspec.json.encode(case).decode())
        cpu = tree_costs(servers.browsers.pid).cpu
        played = None
        if play:
            run = IterationPaths(Path(name), "train", 0).run
            played = answered(Played, "web_playwright", str(run), str(PLAYED_AT_ONCE))
    return Result(told, cpu, played)


def answered(answer: type[T], module: str, *arguments: str) -> T:
    """What a module says at its end."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        stdout=subprocess.PIPE,
        timeout=PATIENCE,
        check=True,
    )
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=answer)


def compare(figures: Figures, plan: Plan, *, judged: bool) -> None:
    """Collect in all ways and report the figures."""
    for sigma in plan.sigmas:
        rounds = [collect_round(plan, sigma, seed, judged=judged) for seed in range(plan.rounds)]
        name = f"web.judged.sigma_{sigma:g}" if judged else f"web.sigma_{sigma:g}"
        for way in WAYS[1:]:
            ratios = [each[way].told.wall / each["asynchronous"].told.wall for each in rounds]
            goal = GOAL if plan is FULL else None
            figures.report(
                f"{name}.speedup_over_{way}", median(ratios), "ratio", goal, at_least=True
            )
            figures.report(f"{name}.speedup_over_{way}_least", min(ratios), "ratio")
            figures.report(f"{name}.speedup_over_{way}_greatest", max(ratios), "ratio")
        for way in WAYS:
            report(figures, f"{name}.{way}", [each[way] for each in rounds], plan)
        for each in rounds:
            if (played := each["asynchronous"].played) is not None:
                report_playwright(figures, each["asynchronous"], played)


def collect_round(plan: Plan, sigma: float, seed: int, *, judged: bool) -> dict[Way, Result]:
    """All ways, in an order that changes from round to round."""
    order = WAYS[seed % len(WAYS) :] + WAYS[: seed % len(WAYS)]
    first = seed == 0 and sigma == plan.sigmas[0] and not judged
    return {
        way: contend(way, plan, sigma, seed, judged=judged, play=first and way == "asynchronous")
        for way in order
    }


def report_playwright(figures: Figures, ours: Result, played: Played) -> None:
    """Ours is counted with the process that collects, theirs with the script."""
    per_step = (ours.browser_cpu + ours.told.cpu) / ours.told.steps
    theirs = played.cpu / played.steps
    figures.report("web.cpu_over_playwright", per_step / theirs, "ratio", CPU_GOAL)
    figures.report("web.playwright.cpu_per_step", theirs, "s")
    figures.report("web.playwright.same_pages", played.same / played.pages, "ratio")


def report(figures: Figures, name: str, results: list[Result], plan: Plan) -> None:
    told = [result.told for result in results]
    lost = sum(plan.episodes - each.completed for each in told)
    steps = sum(each.steps for each in told)
    figures.report(f"{name}.not_completed", lost, "episodes", 0)
    figures.report(f"{name}.solved", sum(each.solved for each in told), "episodes")
    figures.report(f"{name}.steps", steps, "steps")
    figures.report(f"{name}.wall", median(each.wall for each in told), "s")
    figures.report(f"{name}.model_per_step", median(each.model for each in told), "s")
    figures.report(f"{name}.browser_per_step", median(each.browser for each in told), "s")
    browsers = sum(result.browser_cpu for result in results)
    figures.report(f"{name}.browser_cpu_per_step", browsers / steps, "s")
    overhead = sum(each.cpu for each in told)
    figures.report(f"{name}.overhead_cpu_per_step", overhead / steps, "s")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the collection of web rollouts.")
    parser.add_argument("--quick", action="store_true", help="do everything once, on few tasks")
    help_text = "leave out what has no judge"
    parser.add_argument("--only-judged", action="store_true", help=help_text)
    args = parser.parse_args()
    figures = Figures()
    for judged in (False, True):
        if not args.only_judged or judged:
            compare(figures, QUICK if args.quick else FULL, judged=judged)
    if not args.quick:
        figures.exit()


if __name__ == "__main__":
    main()
