"""`rollgym export`: rollouts as training data."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from math import isfinite
from pathlib import Path

from rollgym.export.export import ExportReport, export
from rollgym.export.filter import GroupFilter, parse_filter
from rollgym.export.formats import FORMATS, FormatOptions
from rollgym.export.source import ExportError
from rollgym.rollouts.paths import JSONL, RUN_SUFFIX

WEB_ROLLOUTS = ".pt"


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Write training data from a file of rollouts, of rollgym or of NeMo Gym. The formats are "
        "sft (the messages of each successful rollout), preference (a better and a worse rollout "
        "of one task) and groups (all rollouts of a task with their rewards). Tasks are in the "
        "order of their index. The file is written completely or not at all."
    )
    parser.add_argument(
        "source",
        metavar="FILE.jsonl",
        type=Path,
        help="the file of rollouts, its run directory, or a folder with one such file",
    )
    add = parser.add_argument
    add("--format", choices=FORMATS, required=True, help="format of the training data")
    add(
        "--output",
        metavar="OUT.jsonl",
        type=Path,
        required=True,
        help="file to write; an existing one is replaced",
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
        action="store_true",
        help="preference: write every pair, not only best and worst",
    )
    parser.set_defaults(refuse=parser.error)


def run(arguments: Namespace) -> int:
    _reject_options_of_other_formats(arguments)
    source, target = _rollouts_file(arguments.source), arguments.output
    options = FormatOptions(
        min_reward=arguments.min_reward,
        margin=arguments.margin or 0.0,
        every_pair=arguments.all_pairs,
    )
    report = export(source, target, arguments.format, options, arguments.filter)
    print(_sentence(report, arguments.output))
    return 0


def _rollouts_file(path: Path) -> Path:
    """The file that a path names, or that a folder has. Raises ExportError."""
    if path.suffix == WEB_ROLLOUTS:
        raise ExportError(
            f"{path} has web rollouts, whose screenshots no format here can hold. It is training "
            "data itself: torch.load reads it (docs/web-agents.md describes it)."
        )
    if not path.is_dir():
        return path
    found = _files_in(path)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(map(str, found))
        raise ExportError(f"{path} has {len(found)} files of rollouts. Give one of them: {names}")
    web = next(path.rglob(f"*{WEB_ROLLOUTS}"), None)
    if web is not None:
        return _rollouts_file(web)
    raise ExportError(f"{path} has no file of rollouts. Give the .jsonl file of a collection.")


def _files_in(folder: Path) -> list[Path]:
    """The files of rollouts in a folder, or of a run directory: beside it."""
    if folder.name.endswith(RUN_SUFFIX):
        stem = folder.name.removesuffix(RUN_SUFFIX)
        found = [folder.with_name(f"{stem}{JSONL}"), *folder.parent.glob(f"{stem}_shard-*{JSONL}")]
    else:
        found = list(folder.glob(f"*{JSONL}"))
    others = ("_failures", "_materialized_inputs")
    return sorted(each for each in found if each.is_file() and not each.stem.endswith(others))


def _reject_options_of_other_formats(arguments: Namespace) -> None:
    if arguments.min_reward is not None and arguments.format != "sft":
        arguments.refuse("--min-reward goes with --format sft; --filter chooses among tasks")
    if (arguments.margin is not None or arguments.all_pairs) and arguments.format != "preference":
        arguments.refuse("--margin and --all-pairs go with --format preference")


def _sentence(report: ExportReport, output: Path) -> str:
    filtered = report.tasks - report.chosen_tasks
    nothing = report.chosen_tasks - report.used_tasks
    left = [f"{filtered} filtered out"] * (filtered > 0) + [f"{nothing} gave none"] * (nothing > 0)
    return (
        f"wrote {report.examples} examples to {output}, from {report.used_tasks} of "
        f"{report.tasks} tasks with {report.rollouts} rollouts"
        + (f" ({', '.join(left)})" if left else "")
    )


def _filter(text: str) -> GroupFilter:
    try:
        return parse_filter(text)
    except ExportError as error:
        raise ArgumentTypeError(str(error)) from error


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if not isfinite(number):
        raise ArgumentTypeError(f"{text} is not finite")
    return number
