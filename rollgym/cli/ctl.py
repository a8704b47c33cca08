"""`rollgym ctl`: change a collection while it runs.

The run is found by its output file, its run directory or a folder above it. A run that several
processes collect, as shards or ranks, is asked as a whole: each process gets the command.
"""

import re
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from rollgym.cli.status import run_directory
from rollgym.ctl import ControlAnswer, ControlUnreachableError, ask, sockets_of
from rollgym.ctl.commands import (
    Command,
    Pause,
    RequestStop,
    Resume,
    RetryFailed,
    SetBudget,
    SetConcurrency,
    SetDeadline,
    SetPolicyVersion,
    ShowStatus,
    describe,
)
from rollgym.store import FileLock, RefusedError, StorageError
from rollgym.store.layout import MANIFEST, RUN_LOCK, shard_locks

DEEPEST = 3
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_LONGEST = 100 * 366 * 86400.0
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_TIMES = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M")
_NONE = ("none", "null")
_ENDINGS = """
exit status:
  0  it is done, and what was changed is on disk
  2  the command was used wrongly
  6  rejected, and nothing was changed
"""


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Change a collection while it runs: pause it, change its limits, run failed rollouts "
        "again, or stop it. What was changed is kept with the run; `rollgym status RUN` shows it."
    )
    parser.epilog = _ENDINGS
    parser.add_argument(
        "run",
        metavar="RUN",
        help="the .jsonl file of the rollouts, the run directory, or a folder of a web experiment",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add(commands, "status", "show what the collection is doing", lambda _: ShowStatus())
    _add(commands, "pause", "start no further rollout; running ones finish", lambda _: Pause())
    _add(commands, "resume", "continue after a pause", lambda _: Resume())
    limit = _add(
        commands,
        "concurrency",
        "set how many rollouts run at a time",
        lambda options: SetConcurrency(options.limit),
    )
    limit.add_argument(
        "limit", metavar="N|auto", type=_limit, help="rollouts at a time; auto: as it was started"
    )
    budget = _add(commands, "budget", "change the limits of the whole run", _budget)
    budget.add_argument(
        "--max-tokens",
        type=_count,
        metavar="N",
        default=msgspec.UNSET,
        help="most tokens of the run; none: no limit",
    )
    budget.add_argument(
        "--max-cost",
        type=_dollars,
        metavar="DOLLARS",
        default=msgspec.UNSET,
        help="most dollars that the run may cost; none: no limit",
    )
    deadline = _add(
        commands,
        "deadline",
        "set when the collection stops",
        lambda options: SetDeadline(options.at),
    )
    deadline.add_argument(
        "at",
        metavar="TIME",
        type=_deadline,
        help="duration from now (90m, 1h30m), time (18:30, 2030-01-31T18:30), or none",
    )
    policy = _add(
        commands,
        "policy",
        "set the policy version that the model serves from now on",
        lambda options: SetPolicyVersion(options.version),
    )
    policy.add_argument("version", metavar="VERSION", help="a text without commas, such as 42")
    retry = _add(
        commands,
        "retry-failed",
        "run failed rollouts again",
        lambda options: RetryFailed(options.omitted),
    )
    retry.add_argument("--omitted", action="store_true", help="run omitted ones again too")
    stop = _add(commands, "stop", "stop, as Ctrl-C does", lambda options: RequestStop(options.now))
    stop.add_argument("--now", action="store_true", help="do not wait for running rollouts")


def _add(
    commands: Any, name: str, summary: str, make: Callable[[Namespace], Command]
) -> ArgumentParser:
    sentence = f"{summary[:1].upper()}{summary[1:]}."
    parser: ArgumentParser = commands.add_parser(name, help=summary, description=sentence)
    parser.epilog = _ENDINGS
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON object")
    parser.set_defaults(make=make)
    return parser


def run(arguments: Namespace) -> int:
    command = arguments.make(arguments)
    directory = run_directory(arguments.run)
    runs = _runs(directory)
    answers: dict[Path, ControlAnswer] = {}
    for socket in (socket for found in runs for socket in sockets_of(found)):
        try:
            answers[socket] = ask(socket, command)
        except ControlUnreachableError:
            continue
    if not answers:
        raise RefusedError(_explain(directory, runs, arguments.run))
    for socket, answer in answers.items():
        where = f"{socket.parent.name}/{socket.stem}: " if len(answers) > 1 else ""
        if arguments.json:
            print(
                msgspec.json.encode({"socket": str(socket), **msgspec.to_builtins(answer)}).decode()
            )
        else:
            print_answer(answer, where, whole=isinstance(command, ShowStatus))
    problems = [answer.problem for answer in answers.values() if answer.problem]
    if problems and not arguments.json:
        raise RefusedError("; ".join(dict.fromkeys(problems)))
    return 6 if problems else 0


def print_answer(answer: ControlAnswer, where: str, *, whole: bool) -> None:
    """Print what was done, or with `whole` the state of the collection."""
    if answer.said:
        print(where + answer.said)
    if whole:
        print(f"{where}{answer.state.value}")
        for line in describe(answer.status) if answer.status else ():
            print(where + line)


def _runs(directory: Path) -> list[Path]:
    """The run, or the runs below a folder."""
    if sockets_of(directory):
        return [directory]
    return [run for run in _runs_below(directory) if sockets_of(run)] or [directory]


def _runs_below(folder: Path) -> Iterator[Path]:
    for depth in range(1, DEEPEST + 1):
        yield from sorted(folder.glob("/".join(["*"] * depth) + ".run"))


def _explain(directory: Path, runs: list[Path], given: str) -> str:
    """Why nothing answered, and what to do about it."""
    try:
        locks = [FileLock(path) for run in runs if run.is_dir() for path in _lock_files(run)]
        holders = [lock.holder() for lock in locks if lock.is_held()]
        places = (directory, *_runs_below(directory))
        known = [run for run in places if (run / MANIFEST).is_file()]
    except (StorageError, PermissionError) as error:
        return f"{given} can be asked only by the user who collects it: {error}"
    if holders:
        return (
            f"{given} is collected by {holders[0]}, which does not answer here: ask on that "
            "machine, as the same user and with this version of rollgym"
        )
    if not known:
        return f"{given}: there is no run here. Give the output file or the run directory."
    return (
        f"{given} is not being collected now. The command that made it continues it; "
        f"`rollgym status {known[-1]}` shows what it has."
    )


def _lock_files(run: Path) -> list[Path]:
    return [run / RUN_LOCK, *shard_locks(run)]


def _limit(text: str) -> int | None:
    return None if text == "auto" else _natural(text, "a number of rollouts, or auto")


def _count(text: str) -> int | None:
    return None if text in _NONE else _natural(text, "a number of tokens, or none")


def _natural(text: str, what: str) -> int:
    try:
        number = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise ArgumentTypeError(f"{text!r} is not {what}")
    return number


def _dollars(text: str) -> float | None:
    if text in _NONE:
        return None
    try:
        return float(text.removeprefix("$"))
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number of dollars, or none") from None


def _budget(options: Namespace) -> SetBudget:
    if options.max_tokens is msgspec.UNSET and options.max_cost is msgspec.UNSET:
        error = RefusedError("budget: give --max-tokens, --max-cost or both")
        error.is_misuse = True
        raise error
    return SetBudget(options.max_tokens, options.max_cost)


def _deadline(text: str) -> float | None:
    """A time of the wall clock, from a duration or a time of this machine's zone."""
    if text in _NONE:
        return None
    now = datetime.now().astimezone()
    if _DURATION.fullmatch(text):
        seconds = sum(float(n) * _UNITS[unit] for n, unit in _PART.findall(text))
        if seconds > _LONGEST:
            raise ArgumentTypeError(f"{text!r} is more than a hundred years: give none")
        return time.time() + seconds
    moment = _time_of_day(text, now) or _date(text)
    if moment is None:
        raise ArgumentTypeError(
            f"{text!r} is not a time: give 90m, 1h30m, 18:30, 2030-01-31T18:30 or none"
        )
    if moment <= now:
        raise ArgumentTypeError(f"{text} has passed")
    return moment.timestamp()


def _time_of_day(text: str, now: datetime) -> datetime | None:
    """The next moment at which a clock shows this time."""
    try:
        clock = datetime.strptime(text, "%H:%M")
    except ValueError:
        return None
    today = now.replace(hour=clock.hour, minute=clock.minute, second=0, microsecond=0)
    return today if today > now else today + timedelta(days=1)


def _date(text: str) -> datetime | None:
    for form in _TIMES:
        try:
            return datetime.strptime(text, form).astimezone()
        except ValueError:
            continue
    return None
