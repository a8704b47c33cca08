"""`rollgym demo`: the whole engine at work, on a small built-in set of puzzles.

No language model takes part: the agent is a scripted solver that errs on purpose, and the faults it
meets are simulated. Everything else (retries, the journal, resuming, shards, the numbers) is real.
"""

import math
import os
import shlex
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from pathlib import Path

from rollgym.cli.collection import BareJob, RunRequest, run_collection
from rollgym.cli.puzzles import puzzle_tasks
from rollgym.cli.solver import ScriptedSolver
from rollgym.cli.weather import Weather
from rollgym.engine import Backoff, Fixed, Policy, RetryPolicy, RetryRule
from rollgym.store import WHOLE, RunStore, Shard, Status

SOLVER = "scripted solver 1"
"""Part of the run's identity: another solver would give other results."""

DEFAULT_DIRECTORY = Path("results/demo")
_RETRY = RetryPolicy(default=RetryRule(3, Backoff(initial=0.1, maximum=1.0)), by_kind={})


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Collect rollouts of a small built-in set of puzzles. No language model: a scripted solver "
        "that errs on purpose, with simulated rate limits, tool failures and verifier outages. "
        "Ctrl-C finishes what is in flight and stops, twice stops at once; the same command again "
        "continues where it stopped."
    )
    parser.add_argument(
        "directory",
        metavar="DIR",
        nargs="?",
        type=_directory,
        default=DEFAULT_DIRECTORY,
        help=f"where the run is kept, or is already (default: {DEFAULT_DIRECTORY})",
    )
    _add_run_options(parser)
    _add_policy_options(parser)
    _add_simulation_options(parser)


def run(arguments: Namespace) -> int:
    weather = Weather(arguments.faults, arguments.failures)
    rollouts = arguments.tasks * arguments.repeats
    part = "" if arguments.shard == WHOLE else f", of which shard {arguments.shard},"
    print(
        f"rollgym demo: {arguments.tasks} puzzles x {arguments.repeats} repeats = {rollouts} "
        f"rollouts{part} into {arguments.directory}\n"
        "No language model: a scripted solver that errs on purpose.",
        file=sys.stderr,
    )
    return run_collection(
        RunRequest(
            directory=arguments.directory,
            config={"solver": SOLVER},
            seed=arguments.seed,
            shard=arguments.shard,
            reopen=_reopened(arguments),
            force_new_run=arguments.force_new_run,
        ),
        puzzle_tasks(arguments.tasks, arguments.repeats, arguments.seed),
        BareJob(ScriptedSolver(arguments.latency, weather), _hints),
        Policy(
            concurrency=Fixed(arguments.concurrency),
            retry=_RETRY,
            completion_threshold=arguments.completion_threshold,
            completion_grace_period=arguments.completion_grace_period,
        ),
    )


def _add_run_options(parser: ArgumentParser) -> None:
    options = parser.add_argument_group("the run")
    add = options.add_argument
    add("--tasks", metavar="N", type=_at_least_one, default=60, help="puzzles (default: 60)")
    add("--repeats", metavar="K", type=_at_least_one, default=4, help="of each (default: 4)")
    add("--seed", metavar="S", type=int, default=0, help="of puzzles, slips and faults")
    add(
        "--shard",
        metavar="i/n",
        type=_shard,
        default=WHOLE,
        help="collect only the i-th of n parts, counting from 0; others may do theirs meanwhile",
    )
    add("--retry-failed", action="store_true", help="run failed rollouts again")
    add("--retry-omitted", action="store_true", help="run omitted rollouts again")
    add(
        "--force-new-run",
        action="store_true",
        help="start anew; a run in DIR is kept beside it as DIR.previous-<n>",
    )


def _add_policy_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("how it is run").add_argument
    add(
        "--concurrency",
        metavar="N",
        type=_at_least_one,
        default=16,
        help="attempts in flight at once (default: 16)",
    )
    add(
        "--completion-threshold",
        metavar="F",
        type=_positive_share,
        default=1.0,
        help="once this part has ended, the rest may be omitted as stragglers (default: 1, never)",
    )
    add(
        "--completion-grace-period",
        metavar="SECONDS",
        type=_seconds,
        default=1.0,
        help="how long the rest may still take then (default: 1)",
    )


def _add_simulation_options(parser: ArgumentParser) -> None:
    add = parser.add_argument_group("what is simulated").add_argument
    add(
        "--latency",
        metavar="SECONDS",
        type=_seconds,
        default=0.05,
        help="mean time of a simulated call of the model (default: 0.05)",
    )
    add(
        "--faults",
        metavar="F",
        type=_share,
        default=0.15,
        help="part of the rollouts that meet a passing fault, to be retried (default: 0.15)",
    )
    add(
        "--failures",
        metavar="F",
        type=_share,
        default=0.0,
        help="part of the rollouts that meet a lasting fault and fail (default: 0)",
    )


def _reopened(arguments: Namespace) -> frozenset[Status]:
    asked = {Status.FAILED: arguments.retry_failed, Status.OMITTED: arguments.retry_omitted}
    return frozenset(status for status, wanted in asked.items() if wanted)


def _hints(store: RunStore) -> Iterator[str]:
    command = "rollgym" if shutil.which("rollgym") else os.path.relpath(sys.argv[0])
    directory = shlex.quote(_shown(store.directory))
    journal = shlex.quote(_shown(store.journal_path))
    names = f"manifest.json, inputs.jsonl, {store.journal_path.name}"
    yield f"files in {directory}: {names}; try:"
    yield f"  {command} profile {directory}"
    yield f"  jq 'select(.final) | .outcome.reward' {journal}"
    yield f"  jq 'select(.outcome.status == \"failed\")' {journal}"
    yield f"  jq -c '.outcome.result.output[]?' {journal}"


def _shown(path: Path) -> str:
    """As a person here would write it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith(os.pardir) else relative


def _directory(text: str) -> Path:
    if not text:
        raise ArgumentTypeError("give the name of a directory")
    return Path(text)


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is less than 1")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def _positive_share(text: str) -> float:
    number = _share(text)
    if number == 0:
        raise ArgumentTypeError("must be above 0")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number >= 0):
        raise ArgumentTypeError(f"{text} is no number of seconds")
    return number


def _shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
