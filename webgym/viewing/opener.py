"""Finding web rollouts: folders of experiments, their iterations, single runs, `.pt` files.

*A source is an iteration of a split.* Its parts are the journals of its run directories, of all
ranks together, because journals are complete and grow while the run goes on. The sample says how
many ranks there are, so the journal of a rank that has not started yet is already a part, and the
parts keep their order. A `.pt` file is a part where the run directory is missing.

*Other files.* Tasks come from the run's inputs, or for several ranks from the sample, which has the
same lines. The manifest is that of the first rank; each rank has a monitor. Paths of screenshots
are relative to the folder of the experiment.

If the user names one run or one `.pt` file, only that is opened. A link that leads out of a folder
is not followed.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from rollgym.records.decoding import JsonDecoder
from rollgym.store import RefusedError, StoreError, inputs_path, journal_paths
from rollgym.store.errors import storage_errors
from rollgym.store.layout import MANIFEST
from rollgym.viewer.source import SourcePart, ViewerSource, is_inside, is_journal, journals_of
from webgym.rollout.iteration import IterationPaths
from webgym.rollout.ranks import paths_of_rank
from webgym.rollout.sample import Sample
from webgym.tasks.task import Split
from webgym.trajectory.plain import SCREENSHOTS
from webgym.trajectory.torch_file import TorchFile
from webgym.viewing.formats import TORCH, TRAJECTORIES
from webgym.viewing.records import AttemptRecord, StepSummaries

KIND = "web rollouts"
SPLITS: tuple[Split, ...] = ("train", "test")
MOST_NAMES = 20_000
"""Names of a folder that are read at most."""
LONGEST_LINE = 1 << 24
"""Bytes of the first line that are read to see whether a run has web rollouts."""

_RANK = r"(?:_rank_(?P<rank>\d{1,6}))?"
_RUN = re.compile(rf"iteration(?P<iteration>\d{{1,9}}){_RANK}\.run")
_TORCH = re.compile(rf"(?:.+\.)?pt\.iteration(?P<iteration>\d{{1,9}}){_RANK}")
_SAMPLE = re.compile(r"iteration(?P<iteration>\d{1,9})(?P<rank>)\.sample\.jsonl")
_ANNOUNCED = re.compile(r"iteration(?P<iteration>\d{1,9})\.rank_(?P<rank>\d{1,6})\.json")
_FOLDERS: dict[str, Split] = {f"{split}_trajectories": split for split in SPLITS}
_RECORD = JsonDecoder(AttemptRecord[StepSummaries])


class IterationPlace(NamedTuple):
    """The iteration of a file, by its name and folder. `rank` is None for all ranks."""

    paths: IterationPaths
    rank: int | None

    @property
    def name(self) -> str:
        experiment = self.paths.save_path.resolve().name or "experiment"
        rank = "" if self.rank is None else f" rank {self.rank}"
        return f"{experiment} {self.paths.split} iteration {self.paths.iteration}{rank}"

    @property
    def id(self) -> str:
        return self.name.replace(" iteration ", " ").replace(" ", "-")


def open_web(path: Path) -> Sequence[ViewerSource]:
    """The web rollouts at a path, the latest iteration last; empty where there are none.

    Raises StoreError.
    """
    if path.is_dir():
        own = path.resolve()
        if own.name in _FOLDERS:
            return _iterations(own.parent, _FOLDERS[own.name])
        folders = [split for name, split in _FOLDERS.items() if (path / name).is_dir()]
        if folders:
            return [source for split in folders for source in _iterations(path, split)]
        return [_run(path)] if _is_web_run(path) else []
    if not path.is_file():
        return []
    if is_journal(path) and _is_web_run(path.parent):
        return [_run(path.parent)]
    return [_torch(path)] if path.suffix == ".pt" or _TORCH.fullmatch(path.name) else []


def _iterations(save_path: Path, split: Split) -> list[ViewerSource]:
    folder = IterationPaths(save_path, split, 0).folder
    begun = {iteration for iteration, _ in _found(folder)}
    return [
        source
        for iteration in sorted(begun)
        if (source := _iteration(IterationPaths(save_path, split, iteration))) is not None
    ]


def _found(folder: Path) -> Iterator[tuple[int, int | None]]:
    """The iteration and the rank that each file in a folder belongs to."""
    with storage_errors(folder, "looking for iterations"):
        names = [path.name for path in islice(folder.iterdir(), MOST_NAMES)]
    for name in names:
        for pattern in (_RUN, _TORCH, _SAMPLE, _ANNOUNCED):
            if match := pattern.fullmatch(name):
                rank = match["rank"]
                yield int(match["iteration"]), int(rank) if rank else None


def _iteration(paths: IterationPaths) -> ViewerSource | None:
    """The source of an iteration; None where it has nothing to show."""
    root = paths.save_path.resolve()
    ranks = [each for each in _ranks(paths) if is_inside(each.run, root)]
    torch = [each.trajectories for each in (paths, *ranks) if each.trajectories.is_file()]
    torch = [path for path in torch if is_inside(path, root)]
    if torch and not any(each.run.is_dir() for each in ranks):
        # The file of all ranks contains those of the ranks.
        parts = torch[:1] if torch[0] == paths.trajectories else torch
        return _source(
            IterationPlace(paths, None), torch[0], [SourcePart(path, TORCH) for path in parts]
        )
    if not ranks:
        return None
    journals = [part for each in ranks for part in _parts(each, root)]
    has_sample = len(ranks) > 1 and paths.sample.is_file() and is_inside(paths.sample, root)
    at = paths.sample if has_sample else ranks[0].run
    return _source(IterationPlace(paths, None), at, journals, ranks)


def _ranks(paths: IterationPaths) -> list[IterationPaths]:
    """The paths of all ranks: those in the sample, and those that have files."""
    numbers = {
        rank
        for iteration, rank in _found(paths.folder)
        if iteration == paths.iteration and rank is not None
    } | set(range(_rank_count(paths)))
    if not numbers:
        return [_of_rank(paths, 0, 1)]
    # Even a single rank is one of several, because its name has a rank.
    count = max(numbers) + 2
    return [_of_rank(paths, rank, count) for rank in sorted(numbers)]


def _of_rank(paths: IterationPaths, rank: int, count: int) -> IterationPaths:
    try:
        return paths_of_rank(paths, rank, count)
    except RefusedError:  # a damaged announcement
        return paths.of_rank(rank, count)


def _rank_count(paths: IterationPaths) -> int:
    """The number of ranks in the sample; 0 for one rank or without a sample."""
    sample = _sample(paths)  # without a sample, the names of the runs tell the ranks
    return sample.rank_count if sample is not None and sample.rank_count > 1 else 0


def _parts(paths: IterationPaths, root: Path) -> list[SourcePart]:
    """The journals of a rank, also future ones; the `.pt` file if its run directory is missing."""
    if not paths.run.is_dir() and paths.trajectories.is_file():
        found = [SourcePart(paths.trajectories, TORCH)]
    else:
        found = [SourcePart(journal, TRAJECTORIES) for journal in journals_of(paths.run)]
    return [part for part in found if is_inside(part.path, root)]


def _run(folder: Path) -> ViewerSource:
    """One run directory."""
    place = _place(folder, _RUN)
    root = folder.resolve()
    parts = [
        SourcePart(path, TRAJECTORIES) for path in journals_of(folder) if is_inside(path, root)
    ]
    if place is not None:
        return _source(place, folder, parts, [place.paths])
    above = folder.resolve().parent.parent
    return ViewerSource(
        id=folder.resolve().name,
        title=folder.resolve().name,
        kind=KIND,
        path=folder,
        parts=tuple(parts),
        inputs=_if_inside(inputs_path(folder), root),
        manifest=_if_inside(folder / MANIFEST, root),
        images=above if (above / SCREENSHOTS).is_dir() else None,
        root=root,
    )


def _torch(path: Path) -> ViewerSource:
    """One file of trajectories. Raises TorchFileError, StorageError."""
    TorchFile(path).close()
    place = _place(path, _TORCH)
    parts = [SourcePart(path, TORCH)]
    if place is not None:
        return _source(place, path, parts, suffix="-pt")
    above = path.resolve().parent.parent
    images = next(
        (each for each in (path.resolve().parent, above) if (each / SCREENSHOTS).is_dir()), None
    )
    return ViewerSource(
        id=path.name, title=path.name, kind=KIND, path=path, parts=tuple(parts), images=images
    )


def _source(
    place: IterationPlace,
    path: Path,
    parts: Iterable[SourcePart],
    ranks: Sequence[IterationPaths] = (),
    *,
    suffix: str = "",
) -> ViewerSource:
    """A source with the runs of these ranks; its manifest is that of the first one."""
    paths, is_of_many = place.paths, len(ranks) > 1
    root = paths.save_path.resolve()
    inputs = manifest = None
    if ranks:
        inputs = _if_inside(paths.sample if is_of_many else inputs_path(ranks[0].run), root)
        manifest = _if_inside(ranks[0].run / MANIFEST, root)
    return ViewerSource(
        id=place.id + suffix,
        title=place.name,
        kind=KIND,
        path=path,
        parts=tuple(parts),
        inputs=inputs,
        manifest=manifest,
        monitors=tuple(each.monitor for each in ranks if is_inside(each.monitor, root)),
        images=paths.save_path,
        expected=_expected(paths) if is_of_many else None,
        root=root,
    )


def _if_inside(path: Path, root: Path) -> Path | None:
    """The path, which may not exist yet; None for a link that leads out."""
    return path if is_inside(path, root) else None


def _expected(paths: IterationPaths) -> int | None:
    """The number of rollouts of all ranks, which the manifest of one rank does not have."""
    sample = _sample(paths)
    return None if sample is None else sum(map(sample.rollouts, range(sample.rank_count)))


def _sample(paths: IterationPaths) -> Sample | None:
    try:
        return Sample(paths.sample) if is_inside(paths.sample, paths.save_path.resolve()) else None
    except StoreError:
        return None


def _place(path: Path, pattern: re.Pattern[str]) -> IterationPlace | None:
    """The iteration of a run or a file; None where it is not in the folder of an experiment."""
    folder = path.resolve().parent
    match = pattern.fullmatch(path.resolve().name)
    split = _FOLDERS.get(folder.name)
    if match is None or split is None:
        return None
    paths = IterationPaths(folder.parent, split, int(match["iteration"]))
    rank = int(match["rank"]) if match["rank"] else None
    return IterationPlace(paths if rank is None else paths.of_rank(rank, rank + 2), rank)


def _is_web_run(folder: Path) -> bool:
    """Whether a folder is a run of web rollouts, by its path or its first record."""
    journals = journal_paths(folder)
    if not journals and not (folder / MANIFEST).is_file():
        return _place(folder, _RUN) is not None
    return _place(folder, _RUN) is not None or any(map(_has_trajectories, journals))


def _has_trajectories(journal: Path) -> bool:
    try:
        with journal.open("rb") as file:
            record = _RECORD.decode(file.readline(LONGEST_LINE))
    except (OSError, ValueError):  # the opener that accepts it reports the problem
        return False
    return bool(record.outcome.result and record.outcome.result.task_id)
