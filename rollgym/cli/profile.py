"""`rollgym profile`: the distribution of rewards over the repeats of each task.

Tasks that always or never succeed do not help training; those in between do. Each task is printed
as soon as all its repeats have been read, so the table of any run needs little memory.
"""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import msgspec

from rollgym.cli.look import look_lines
from rollgym.cli.status import require_manifest
from rollgym.cli.summary import headline, token_lines, version_lines
from rollgym.metrics import TaskProfile, reward_profile
from rollgym.monitor import LiveMetrics
from rollgym.records import Attempt, RecordState
from rollgym.rollouts.paths import JSONL, RolloutPaths
from rollgym.rollouts.scored_rows import attempts_in
from rollgym.store import run_records

_COUNTS = ("task", "repeats", "completed", "failed", "omitted", "successes")
_NUMBERS = ("mean", "std", "min", "max")
_WIDE = {"task", *_NUMBERS}
_WIDTH = 8


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Show a line for each task with an outcome: its repeats by outcome, and the mean, standard "
        "deviation (of the population), minimum and maximum of their rewards. The last lines have "
        "pass@k and the means. For web rollouts they also have the share of replies that are "
        "actions, and the tokens of a step. Tasks are in the order in which they were finished."
    )
    parser.add_argument(
        "path", metavar="RUN", type=Path, help="a run directory, or the .jsonl file of its rollouts"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON object on each line")


def run(arguments: Namespace) -> int:
    metrics = LiveMetrics()
    profiles = reward_profile(_counted(_attempts(arguments.path), metrics))
    if arguments.json:
        for profile in profiles:
            print(msgspec.json.encode(profile).decode())
        return 0
    print(" ".join(_column(name, name) for name in (*_COUNTS, *_NUMBERS)))
    for profile in profiles:
        print(_row(profile))
    summary = metrics.summary()
    print(json.dumps(headline(summary), indent=4))
    lines = (look_lines(metrics, summary), token_lines(summary), version_lines(summary))
    for line in chain(*lines):
        print(line)
    return 0


def _attempts(path: Path) -> Iterator[tuple[Attempt, bool]]:
    """The records of the run, or of a file of rollouts without a run; whether each is current."""
    directory = RolloutPaths.of(path).run if path.suffix == JSONL else path
    if path.suffix == JSONL and not directory.exists():
        return ((attempt, True) for attempt in attempts_in(path))
    require_manifest(directory)
    return ((entry.attempt, current) for entry, current in run_records(directory))


def _counted(attempts: Iterator[tuple[Attempt, bool]], metrics: LiveMetrics) -> Iterator[Attempt]:
    """The current records. The others are counted as attempts only."""
    for attempt, current in attempts:
        metrics.replay(attempt, RecordState.CURRENT if current else RecordState.SUPERSEDED)
        if current:
            yield attempt


def _row(profile: TaskProfile) -> str:
    cells = [_column(name, str(getattr(profile, name))) for name in _COUNTS]
    for name in _NUMBERS:
        value: float | None = getattr(profile, name)
        cells.append(_column(name, "-" if value is None else f"{value:.4g}"))
    return " ".join(cells)


def _column(name: str, text: str) -> str:
    return text.rjust(max(_WIDTH if name in _WIDE else 0, len(name)))
