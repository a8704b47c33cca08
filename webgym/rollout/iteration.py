"""The iterations of a folder: their files and metrics, and the ranks that share one.

*Which iteration.* Without a number, a command continues the last started iteration until it is
finished: completed by one process, or by several ranks and aggregated. Then it starts the next one.
Ranks that start together choose the same number, because the files of the first one belong to an
unfinished iteration. A retry of failed or omitted rollouts means the last iteration.

*The metrics file* has coverage and metrics. Each rank writes one at its checkpoints and at its end.
`final` says that the rank is done and that all its trajectories are in their file, which is written
first.

*Ranks* are started by the user, and do not communicate while they run. A rank gets its number and
the number of ranks from the settings, or from `RANK` and `WORLD_SIZE`, or from SLURM's
`SLURM_PROCID` and `SLURM_NTASKS`, in this order. It needs the weights of all ranks, because they
decide which tasks it has.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.store import OpenAdvice, RefusedError, StoreError, write_derived
from rollgym.store.errors import storage_error
from webgym.tasks.task import Split
from webgym.trajectory.metrics import RolloutMetrics
from webgym.utils.rollout_sampler import divide

if TYPE_CHECKING:
    from webgym.rollout.environment_settings import EnvironmentSettings

_ITERATION_FILE = re.compile(r"(?:.*\.)?iteration(\d+)(?:_rank_\d+|\.sample\.jsonl|\.run|\.json)*")
ITERATION_ADVICE = OpenAdvice(
    another_run="choose another iteration=… or another save_path=…",
    sharing="Several processes can share an iteration as ranks: give each its RANK, and all the "
    "same WORLD_SIZE.",
)
"""The advice where the run of an iteration cannot be opened."""


class IterationPaths(msgspec.Struct, frozen=True):
    """The paths of one iteration. `suffix` is that of a rank, empty for shared files."""

    save_path: Path
    split: Split
    iteration: int
    suffix: str = ""

    def of_rank(self, index: int, count: int) -> "IterationPaths":
        """The paths of one of `count` ranks."""
        return msgspec.structs.replace(self, suffix=rank_suffix(index, count))

    @property
    def folder(self) -> Path:
        return self.save_path / f"{self.split}_trajectories"

    @property
    def trajectories(self) -> Path:
        """The `.pt` file."""
        return self.folder / f"{self.split}_trajectories.pt.{self._name}"

    @property
    def run(self) -> Path:
        """The run directory of the store."""
        return self.folder / f"{self._name}.run"

    @property
    def metrics(self) -> Path:
        return self.folder / f"metrics.{self._name}.json"

    @property
    def monitor(self) -> Path:
        return self.folder / f"monitor.{self._name}.json"

    @property
    def sample(self) -> Path:
        """The tasks of all ranks."""
        return self.folder / f"iteration{self.iteration}.sample.jsonl"

    @property
    def screenshots(self) -> Path:
        """The screenshots of all iterations and ranks."""
        return self.save_path / "screenshots"

    @property
    def blocklist(self) -> Path:
        return self.save_path / "blocklist.jsonl"

    @property
    def _name(self) -> str:
        return f"iteration{self.iteration}{self.suffix}"


def find_iteration(save_path: Path, split: Split) -> int:
    """The last iteration if it is not finished, else the next; 0 where there is none.

    Raises StorageError.
    """
    last = last_iteration(save_path, split)
    if last is None:
        return 0
    return last + 1 if is_finished(IterationPaths(save_path, split, last)) else last


def last_iteration(save_path: Path, split: Split) -> int | None:
    """The last started iteration; None where there is none. Raises StorageError."""
    return max(_started(IterationPaths(save_path, split, 0).folder), default=None)


def is_finished(paths: IterationPaths) -> bool:
    """Whether the metrics at these paths are final. Raises StorageError."""
    try:
        report = read_report(paths.metrics)
    except ReportError:
        return False
    return report is not None and report.final


def _started(folder: Path) -> Iterator[int]:
    try:
        for path in folder.iterdir():
            if found := _ITERATION_FILE.fullmatch(path.name):
                yield int(found[1])
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(error, folder, "looking for iterations") from error


class ReportError(StoreError):
    """A metrics file is damaged."""


class IterationCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of `expected` rollouts."""

    expected: int
    completed: int
    failed: int
    omitted: int
    unresolved: int


class IterationLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Names an iteration, and the rank that reports."""

    split: str
    iteration: int
    rank: int = 0
    world_size: int = 1


class IterationReport(IterationLabels, frozen=True, kw_only=True):
    """The metrics file. `trajectories` is the name of the `.pt` file.

    `missing_ranks` are ranks that are not included in an aggregated file.
    """

    final: bool
    coverage: IterationCoverage
    metrics: RolloutMetrics
    seconds: float
    trajectories: str
    missing_ranks: tuple[int, ...] = ()


_DECODER = JsonDecoder(IterationReport)


def write_report(path: Path, report: IterationReport) -> None:
    """Write the file atomically. Raises StorageError."""
    write_derived(path, (msgspec.json.format(msgspec.json.encode(report), indent=2), b"\n"))


def read_report(path: Path) -> IterationReport | None:
    """The report; None where there is no file. Raises ReportError, StorageError."""
    try:
        return _DECODER.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "reading the metrics") from error
    except ValueError as error:
        raise ReportError(
            f"{path} is not a metrics file ({error}): run the rank that writes it again"
        ) from error


_VARIABLES = ("RANK", "WORLD_SIZE")
_SLURM_VARIABLES = ("SLURM_PROCID", "SLURM_NTASKS")
_SETTINGS = ("multinode_rank", "multinode_total_workers")


class RankError(RefusedError):
    """The settings of ranks are invalid or contradict each other."""


class Rank(msgspec.Struct, frozen=True):
    """One of `count` ranks, counted from 0. `weights` are the weights of all ranks."""

    index: int = 0
    count: int = 1
    weights: tuple[float, ...] = (1.0,)

    @property
    def suffix(self) -> str:
        """The suffix of its file names."""
        return rank_suffix(self.index, self.count)

    @property
    def is_master(self) -> bool:
        """Whether this is the rank that aggregates the files of all."""
        return self.index == 0

    def sessions(self, server_size: int) -> int:
        """The number of browser sessions of this rank.

        Raises RankError where a rank would have tasks and no browser session.
        """
        parts = divide(server_size, self.weights)
        for index, (part, weight) in enumerate(zip(parts, self.weights, strict=True)):
            if weight and not part:
                raise RankError(
                    f"server_size={server_size} divided by the weights {_joined(self.weights)} "
                    f"leaves rank {index} without a browser: raise server_size, or use fewer ranks"
                )
        return parts[self.index]


def rank_suffix(index: int, count: int) -> str:
    return "" if count == 1 else f"_rank_{index}"


def find_rank(settings: "EnvironmentSettings", environment: Mapping[str, str]) -> Rank:
    """The rank of this process, by its settings and environment variables. Raises RankError."""
    index, count = _number_and_count(settings, environment)
    if count < 1 or not 0 <= index < count:
        raise RankError(
            f"rank {index} of {count} does not exist: give a rank from 0 to {max(count, 1) - 1}, "
            "or correct the number of ranks"
        )
    weights = _weights(settings.rank_weights, count)
    _check_own_weight(settings, index, weights)
    return Rank(index, count, weights or tuple(repeat(1.0, count)))


def _number_and_count(
    settings: "EnvironmentSettings", environment: Mapping[str, str]
) -> tuple[int, int]:
    return (
        _both(_SETTINGS, (settings.multinode_rank, settings.multinode_total_workers))
        or _both(_VARIABLES, tuple(_whole_number(environment, name) for name in _VARIABLES))
        or _from_slurm(environment)
        or (0, 1)
    )


def _from_slurm(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """An allocation sets only the count; `srun` sets both variables for each of its tasks."""
    if not all(environment.get(name) for name in _SLURM_VARIABLES):
        return None
    index, count = (_whole_number(environment, name) for name in _SLURM_VARIABLES)
    return (index, count) if index is not None and count is not None else None


def _whole_number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise RankError(f"the variable {name} is {text!r}: give a whole number")
    return int(text)


def _both(names: tuple[str, str], values: tuple[int | None, ...]) -> tuple[int, int] | None:
    """The rank and the number of ranks; None if neither is set. Raises RankError if one is."""
    match values:
        case (int() as index, int() as count):
            return index, count
        case (None, None):
            return None
    given, missing = names if values[1] is None else reversed(names)
    raise RankError(
        f"{given} is set and {missing} is not: a rank needs its number and the number of ranks; "
        f"set {missing} too, or neither"
    )


def _weights(written: str | None, count: int) -> tuple[float, ...] | None:
    if written is None:
        return None
    weights = tuple(map(float, written.split(",")))
    if not any(weights):
        raise RankError(f"rank_weights={written}: at least one weight must be above 0")
    if len(weights) != count:
        raise RankError(
            f"rank_weights={_joined(weights)} has {len(weights)} weight(s) for {count} rank(s): "
            "give one weight for each rank"
        )
    return weights


def _check_own_weight(
    settings: "EnvironmentSettings", index: int, weights: tuple[float, ...] | None
) -> None:
    """Check the weight of this rank alone, which cannot decide which tasks it has."""
    own, total = settings.rank_load_weight, settings.total_load_weight
    if own is None and total is None:
        return
    if weights is None:
        raise RankError(
            "rank_load_weight and total_load_weight do not say which tasks a rank has: set the "
            'weights of all ranks, the same on each, such as rank_weights="2,1,1"'
        )
    if own is not None and own != weights[index]:
        raise RankError(
            f"rank_load_weight={own:g} contradicts rank_weights={_joined(weights)}, where rank "
            f"{index} has {weights[index]:g}: remove rank_load_weight"
        )
    if total is not None and total != sum(weights):
        raise RankError(
            f"total_load_weight={total:g} contradicts rank_weights={_joined(weights)}, whose sum "
            f"is {sum(weights):g}: remove total_load_weight"
        )


def _joined(weights: Sequence[float]) -> str:
    return ",".join(f"{weight:g}" for weight in weights)
