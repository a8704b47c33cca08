"""The metrics file of an iteration: how much of it there is, and the numbers of that.

Each rank writes one at its checkpoints and at its end. `final` says that the rank has nothing left
to do, and that its trajectories are all in their file, which is written before.
"""

from pathlib import Path

import msgspec

from rollgym.store import StoreError, write_derived
from rollgym.store.errors import storage_error
from webgym.trajectory.metrics import RolloutMetrics


class ReportError(StoreError):
    """A metrics file is not what it should be."""


class IterationCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """Of `expected` rollouts, how many have which outcome."""

    expected: int
    completed: int
    failed: int
    omitted: int
    unresolved: int


class IterationLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Which iteration, and whose part of it."""

    split: str
    iteration: int
    rank: int = 0
    world_size: int = 1


class IterationReport(IterationLabels, frozen=True, kw_only=True):
    """The whole file. `trajectories` names the file that the metrics are of.

    `missing_ranks` are those whose part is not in it, where ranks were put together.
    """

    final: bool
    coverage: IterationCoverage
    metrics: RolloutMetrics
    seconds: float
    trajectories: str
    missing_ranks: tuple[int, ...] = ()


_DECODER = msgspec.json.Decoder(IterationReport)


def write_report(path: Path, report: IterationReport) -> None:
    """Write it whole or not at all. Raises StorageError."""
    write_derived(path, (msgspec.json.format(msgspec.json.encode(report), indent=2), b"\n"))


def read_report(path: Path) -> IterationReport | None:
    """The report, None where there is no file yet. Raises ReportError, StorageError."""
    try:
        return _DECODER.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "reading the metrics") from error
    except ValueError as error:
        raise ReportError(
            f"{path} holds no metrics of an iteration ({error}): run the rank that writes it again"
        ) from error
