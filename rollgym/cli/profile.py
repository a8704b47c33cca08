"""`rollgym profile`: how the rewards of each task are spread over its repeats.

Tasks that always or never succeed teach a trainer nothing; those in between do. Each task is
printed as soon as all its repeats have been read, so the table of any run needs little memory.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import msgspec

from rollgym.cli.run_directory import require_manifest
from rollgym.metrics import TaskProfile, reward_profile
from rollgym.store import journal_paths, read_standing

_COUNTS = ("task", "repeats", "completed", "failed", "omitted", "successes")
_NUMBERS = ("mean", "std", "min", "max")
_WIDE = {"task", *_NUMBERS}
_WIDTH = 8


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Show a line for each task with a recorded end: how many of its repeats ended how, and the "
        "mean, standard deviation (of the population) and extremes of their rewards. Tasks come in "
        "the order in which they were finished."
    )
    parser.add_argument("directory", metavar="DIR", type=Path, help="the run's directory")
    parser.add_argument("--json", action="store_true", help="a JSON object on each line")


def run(arguments: Namespace) -> int:
    require_manifest(arguments.directory)
    standing = read_standing(journal_paths(arguments.directory))
    profiles = reward_profile(entry.attempt for entry, stands in standing if stands)
    if not arguments.json:
        print(" ".join(_column(name, name) for name in (*_COUNTS, *_NUMBERS)))
    for profile in profiles:
        print(msgspec.json.encode(profile).decode() if arguments.json else _row(profile))
    return 0


def _row(profile: TaskProfile) -> str:
    cells = [_column(name, str(getattr(profile, name))) for name in _COUNTS]
    for name in _NUMBERS:
        value: float | None = getattr(profile, name)
        cells.append(_column(name, "-" if value is None else f"{value:.4g}"))
    return " ".join(cells)


def _column(name: str, text: str) -> str:
    return text.rjust(max(_WIDTH if name in _WIDE else 0, len(name)))
