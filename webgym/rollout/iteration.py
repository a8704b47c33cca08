"""The iterations of a folder: where their files are, and which one a command means.

Without a number, a command continues the last iteration that was begun, until it is finished: done
to its end by one process, or by several ranks and put together. Then it begins the next. Ranks that
are started together come to the same number, whichever is first: what one of them makes belongs to
an iteration that is not finished. Who runs again what failed or was left out means the last one,
finished or not.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

import msgspec

from rollgym.store import OpenAdvice, RefusedError, StoreError, write_derived
from rollgym.store.errors import storage_error
from webgym.tasks.task import Split
from webgym.trajectory.metrics import RolloutMetrics
from webgym.utils.rollout_sampler import divide

_OF_ITERATION = re.compile(r"(?:.*\.)?iteration(\d+)(?:_rank_\d+|\.sample\.jsonl|\.run|\.json)*")
ITERATION_ADVICE = OpenAdvice(
    another_run="choose another iteration=… or another save_path=…",
    sharing="Several processes can share an iteration as ranks: give each its RANK, and all the "
    "same WORLD_SIZE.",
)
"""What the user of a web rollout can do when the run of an iteration is not opened."""


class IterationPaths(msgspec.Struct, frozen=True):
    """The files of one iteration. `suffix` is that of a rank, empty for what is everybody's."""

    save_path: Path
    split: Split
    iteration: int
    suffix: str = ""

    def of_rank(self, index: int, count: int) -> "IterationPaths":
        """The same for one of `count` ranks."""
        return msgspec.structs.replace(self, suffix=rank_suffix(index, count))

    @property
    def folder(self) -> Path:
        return self.save_path / f"{self.split}_trajectories"

    @property
    def trajectories(self) -> Path:
        """The `.pt`."""
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
        """Of all iterations and ranks."""
        return self.save_path / "screenshots"

    @property
    def blocklist(self) -> Path:
        return self.save_path / "blocklist.jsonl"

    @property
    def _name(self) -> str:
        return f"iteration{self.iteration}{self.suffix}"


def find_iteration(save_path: Path, split: Split) -> int:
    """The iteration to go on with: the last if it is not finished, else the next; 0 at first.

    Raises StorageError.
    """
    last = last_iteration(save_path, split)
    if last is None:
        return 0
    return last + 1 if is_finished(IterationPaths(save_path, split, last)) else last


def last_iteration(save_path: Path, split: Split) -> int | None:
    """The last that was begun, finished or not; None where there is none. Raises StorageError."""
    return max(_begun(IterationPaths(save_path, split, 0).folder), default=None)


def is_finished(paths: IterationPaths) -> bool:
    """Whether the metrics at these paths say that nothing is left to do. Raises StorageError."""
    try:
        report = read_report(paths.metrics)
    except ReportError:  # then nothing says so
        return False
    return report is not None and report.final


def _begun(folder: Path) -> Iterator[int]:
    try:
        for path in folder.iterdir():
            if found := _OF_ITERATION.fullmatch(path.name):
                yield int(found[1])
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(error, folder, "looking for iterations") from error


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


_VARIABLES = ("RANK", "WORLD_SIZE")
_SLURM_VARIABLES = ("SLURM_PROCID", "SLURM_NTASKS")
_SETTINGS = ("multinode_rank", "multinode_total_workers")


class RankError(RefusedError):
    """What was said about ranks is no rank, or contradicts itself."""


class RankSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about ranks. `rank_weights` is `"2,1,1"`, or the numbers."""

    multinode_rank: int | None = None
    multinode_total_workers: int | None = None
    rank_weights: str | Sequence[float] | None = None
    rank_load_weight: float | None = None
    total_load_weight: float | None = None


class Rank(msgspec.Struct, frozen=True):
    """One of `count` ranks, counted from 0. `weights` are those of all."""

    index: int = 0
    count: int = 1
    weights: tuple[float, ...] = (1.0,)

    @property
    def suffix(self) -> str:
        """What its files carry at the end of their names."""
        return rank_suffix(self.index, self.count)

    @property
    def is_master(self) -> bool:
        """Whether this is the one that puts the files of all together."""
        return self.index == 0

    def servers(self, server_size: int) -> int:
        """How many of the browsers are this rank's.

        Raises RankError where some rank would have tasks and no browser to do them in.
        """
        parts = divide(server_size, self.weights)
        for index, (part, weight) in enumerate(zip(parts, self.weights, strict=True)):
            if weight and not part:
                raise RankError(
                    f"server_size={server_size} divided by the weights {_written(self.weights)} "
                    f"leaves rank {index} without a browser: raise server_size, or use fewer ranks"
                )
        return parts[self.index]


def rank_suffix(index: int, count: int) -> str:
    return "" if count == 1 else f"_rank_{index}"


def find_rank(settings: RankSettings, environment: Mapping[str, str]) -> Rank:
    """Raises RankError."""
    index, count = _number_and_count(settings, environment)
    if count < 1 or not 0 <= index < count:
        raise RankError(
            f"rank {index} of {count} does not exist: ranks count from 0, so give one from 0 to "
            f"{max(count, 1) - 1}, or correct the number of all ranks"
        )
    weights = _weights(settings.rank_weights, count)
    _check_own_weight(settings, index, weights)
    return Rank(index, count, weights or tuple(repeat(1.0, count)))


def _number_and_count(settings: RankSettings, environment: Mapping[str, str]) -> tuple[int, int]:
    said = (settings.multinode_rank, settings.multinode_total_workers)
    match said:
        case (int() as index, int() as count):
            return index, count
        case (None, None):
            return _from_variables(environment) or _from_slurm(environment) or (0, 1)
        case _:
            raise _half_said(_SETTINGS, said)


def _from_variables(environment: Mapping[str, str]) -> tuple[int, int] | None:
    said = tuple(_whole_number(environment, name) for name in _VARIABLES)
    match said:
        case (None, None):
            return None
        case (int() as index, int() as count):
            return index, count
        case _:
            raise _half_said(_VARIABLES, said)


def _from_slurm(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """An allocation sets the count alone; only where `srun` numbers its tasks are there ranks."""
    if not all(environment.get(name) for name in _SLURM_VARIABLES):
        return None
    index, count = (_whole_number(environment, name) for name in _SLURM_VARIABLES)
    return (index, count) if index is not None and count is not None else None


def _whole_number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise RankError(f"the variable {name} is {text!r}, which is no whole number")
    return int(text)


def _half_said(names: tuple[str, str], values: tuple[int | None, ...]) -> RankError:
    given, missing = names if values[1] is None else reversed(names)
    return RankError(
        f"{given} is given and {missing} is not: a rank needs its number and the number of all "
        f"ranks; give {missing} too, or neither"
    )


def _weights(written: str | Sequence[float] | None, count: int) -> tuple[float, ...] | None:
    if written is None or written in ("", []):
        return None
    parts = written.split(",") if isinstance(written, str) else written
    try:
        weights = tuple(float(part) for part in parts)
    except ValueError as error:
        raise RankError(f'rank_weights={written} must be numbers, such as "2,1,1"') from error
    if any(not math.isfinite(weight) or weight < 0 for weight in weights) or not any(weights):
        raise RankError(f"rank_weights={written}: each must be 0 or more, and one of them above 0")
    if len(weights) != count:
        raise RankError(
            f"rank_weights={_written(weights)} are the weights of {len(weights)} rank(s), but there"
            f" are {count}: give one weight for each rank"
        )
    return weights


def _check_own_weight(
    settings: RankSettings, index: int, weights: tuple[float, ...] | None
) -> None:
    """A weight of its own tells a rank how many tasks it has, but not which."""
    own, total = settings.rank_load_weight, settings.total_load_weight
    if own is None and total is None:
        return
    if weights is None:
        raise RankError(
            "rank_load_weight and total_load_weight say how much a rank does, not which part: give "
            'the weights of all ranks, the same on each, e.g. rank_weights="2,1,1"'
        )
    if own is not None and own != weights[index]:
        raise RankError(
            f"rank_load_weight={own:g} contradicts rank_weights={_written(weights)}, where rank "
            f"{index} has {weights[index]:g}: leave rank_load_weight out"
        )
    if total is not None and total != sum(weights):
        raise RankError(
            f"total_load_weight={total:g} contradicts rank_weights={_written(weights)}, which add "
            f"up to {sum(weights):g}: leave total_load_weight out"
        )


def _written(weights: Sequence[float]) -> str:
    return ",".join(f"{weight:g}" for weight in weights)
