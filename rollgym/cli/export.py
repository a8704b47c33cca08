"""`rollgym export`: rollouts as training data."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from math import isfinite
from pathlib import Path

from rollgym.export.export import CARD, ExportReport, export
from rollgym.export.filter import RewardFilter, Staleness, parse_filter
from rollgym.export.formats import FORMATS, FormatOptions
from rollgym.export.source import ExportError


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Write training data from a file of rollouts, of rollgym or of NeMo Gym, or from web "
        "rollouts. The formats are sft (the messages of each successful rollout), preference (a "
        "better and a worse rollout of one task), groups (all rollouts of a task with their "
        "rewards and advantages), tokens (the exact tokens of each rollout, with loss mask and "
        "log probabilities), verl (the same as its agent loops return them) and atif (a trajectory "
        "of the interchange format for each rollout). Tasks are in the order of their index. The "
        "file is written completely or not at all. A card beside it says where the examples come "
        "from and what was left out."
    )
    parser.add_argument(
        "source",
        metavar="ROLLOUTS",
        type=Path,
        help="the .jsonl file of rollouts, its run directory, or a folder with one such file; for "
        "web rollouts, a run directory, a .pt file or the folder of an experiment",
    )
    add = parser.add_argument
    add("--format", choices=FORMATS, required=True, help="format of the training data")
    add(
        "--output",
        metavar="OUT",
        type=Path,
        required=True,
        help="file to write, .jsonl or .parquet; an existing one is replaced",
    )
    add(
        "--filter",
        metavar="EXPRESSION",
        type=_filter,
        help="condition on the rewards of a task, such as '0 < avg < 1' or 'best == 1 and n >= 4'; "
        "it may use avg, best, worst, n, comparisons, and, or, not and parentheses",
    )
    add(
        "--min-reward",
        metavar="X",
        type=_number,
        help="sft: smallest reward of a rollout (default: only successful rollouts)",
    )
    add(
        "--margin",
        metavar="X",
        type=_number,
        help="preference: smallest difference in reward (default: any)",
    )
    add(
        "--all-pairs",
        dest="every_pair",
        action="store_true",
        help="preference: write every pair, not only best and worst",
    )
    add(
        "--drop-equal",
        action="store_true",
        help="groups, tokens, verl: leave out tasks whose rollouts all have the same reward",
    )
    add(
        "--max-staleness",
        metavar="K",
        type=_count,
        help="leave out rollouts whose oldest turn is more than K policy versions old, and those "
        "of an unknown version",
    )
    add(
        "--policy-version",
        metavar="V",
        default="",
        help="version that --max-staleness counts from (default: the newest of these rollouts)",
    )
    parser.set_defaults(refuse=parser.error)


def run(arguments: Namespace) -> int:
    _reject_options_of_other_formats(arguments)
    asked = {name: getattr(arguments, name) for name in FormatOptions.__struct_fields__}
    given = {name: value for name, value in asked.items() if value is not None}
    options = FormatOptions(**given)
    most, version = arguments.max_staleness, arguments.policy_version.strip()
    report = export(
        arguments.source,
        arguments.output,
        arguments.format,
        options,
        arguments.filter,
        staleness=None if most is None else Staleness(most, version),
    )
    for line in _lines(report, arguments.output):
        print(line)
    return 0


def _reject_options_of_other_formats(arguments: Namespace) -> None:
    if arguments.min_reward is not None and arguments.format != "sft":
        arguments.refuse("--min-reward goes with --format sft; --filter chooses among tasks")
    if arguments.policy_version and arguments.max_staleness is None:
        arguments.refuse("--policy-version goes with --max-staleness, such as --max-staleness 0")
    if (arguments.margin is not None or arguments.every_pair) and arguments.format != "preference":
        arguments.refuse("--margin and --all-pairs go with --format preference")
    if arguments.drop_equal and arguments.format not in ("groups", "tokens", "verl"):
        arguments.refuse("--drop-equal goes with --format groups, tokens or verl")


def _lines(report: ExportReport, output: Path) -> Iterator[str]:
    from rollgym.cli.summary import format_count  # noqa: PLC0415 - --help answers at once

    stale, filtered = report.stale_tasks, report.tasks - report.stale_tasks - report.chosen_tasks
    nothing = report.chosen_tasks - report.used_tasks
    without = (
        (stale, "without a fresh rollout"),
        (filtered, "filtered out"),
        (nothing, "gave none"),
    )
    left = [f"{many} {why}" for many, why in without if many]
    examples = format_count(report.examples, "example")
    yield (
        f"wrote {examples} to {output}, from {report.used_tasks} of "
        f"{format_count(report.tasks, 'task')} with {format_count(report.rollouts, 'rollout')}"
        + (f" ({', '.join(left)})" if left else "")
    )
    for what, counts in (("rollouts", report.dropped), ("replies", report.replies_dropped)):
        if counts:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
            yield f"{what} left out: {reasons}"
    if report.tasks_with_equal_rewards:
        yield f"tasks whose rollouts have equal rewards: {report.tasks_with_equal_rewards}"
    yield f"card: {output}{CARD}"


def _filter(text: str) -> RewardFilter:
    try:
        return parse_filter(text)
    except ExportError as error:
        raise ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if not isfinite(number):
        raise ArgumentTypeError(f"{text} is not finite")
    return number
