"""From paths to sources: which files make up one collection.

A *path* is a file or a folder that the user named. Plug-ins are asked about it first. Then the
viewer accepts a file of rollouts with the files that belong to it, or a run directory; in any other
folder it looks for both, one level of subfolders deep. Files that belong to another source are not
sources themselves: `x_failures.jsonl`, `x_materialized_inputs.jsonl` and `x.run` beside `x.jsonl`.

*Links.* A path that the user named is followed wherever it leads. Files that are found in a folder,
or beside a file, must lie there: a link that leads out of the folder is not followed.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, count, islice
from pathlib import Path

import msgspec

from rollgym.plugins import load_plugin
from rollgym.rollouts.paths import (
    FAILURES_END,
    INPUTS_END,
    JSONL,
    RUN_SUFFIX,
    RolloutPaths,
    run_beside,
)
from rollgym.store import StoreError, inputs_path, journal_paths
from rollgym.store.errors import storage_errors
from rollgym.store.layout import INPUTS, MANIFEST, OPENING_LOCK
from rollgym.suggestions import suggestion
from rollgym.viewer.errors import ViewerError
from rollgym.viewer.formats.rows import JOURNAL, ROLLOUTS
from rollgym.viewer.source import (
    ENTRY_POINTS,
    Opener,
    SourcePart,
    ViewerSource,
    is_inside,
    is_journal,
    journals_of,
)

MOST_SOURCES = 200
MOST_FILES = 20_000
"""Names of a folder that are read at most."""
_LONGEST_ID = 80
_FAILURES, _INPUTS = f"{FAILURES_END}{JSONL}", f"{INPUTS_END}{JSONL}"
_PACKED = frozenset((".gz", ".zst", ".xz", ".bz2", ".lz4", ".zip"))
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9._-]+")
_log = logging.getLogger(__name__)


def open_sources(paths: Sequence[Path]) -> tuple[ViewerSource, ...]:
    """All sources at the paths, each once, with unique ids.

    A folder may have none yet. Raises ViewerError for a path that does not exist or that the viewer
    cannot show, and StoreError.
    """
    found = [_sources_of(path) for path in paths]
    for path, inside in zip(paths, found, strict=True):
        if not inside:
            _log.warning(
                "%s has no rollouts yet. Files of rollouts (*%s) and runs appear in the viewer as "
                "soon as they are written there. Links that lead out of a folder are not followed",
                path,
                JSONL,
            )
    return _merged(chain.from_iterable(found), ())


def look_again(paths: Sequence[Path], known: Sequence[ViewerSource]) -> tuple[ViewerSource, ...]:
    """All sources at the paths now, when a run may have started or a file may be missing.

    The `known` sources keep their order and their ids, even where their files are missing. A known
    source that has more files now, such as the journal of another shard, is updated. Raises
    ViewerError and StoreError as `open_sources` does.
    """
    return _merged([source for path in paths for source in _sources_of(path)], known)


def _merged(
    found: Iterable[ViewerSource], known: Sequence[ViewerSource]
) -> tuple[ViewerSource, ...]:
    ids = {_place(source): source.id for source in known}
    now: dict[Path, ViewerSource] = {}
    for source in found:
        now.setdefault(_place(source), source)
    kept = [
        msgspec.structs.replace(now.get(path, old), id=old.id)
        for path, old in zip(ids, known, strict=True)
    ]
    others = [source for path, source in now.items() if path not in ids]
    return (*kept, *_with_ids(others[: MOST_SOURCES - len(kept)], set(ids.values())))


def _sources_of(path: Path) -> Sequence[ViewerSource]:
    named = _source_at(path)
    if named:
        return named
    if path.is_dir():
        return list(islice(_sources_in(path), MOST_SOURCES))
    raise _nothing_at(path)


def _source_at(path: Path) -> Sequence[ViewerSource]:
    """The sources that this file or folder is itself; empty for another folder or no file."""
    for opener in _plugins():
        found = opener(path)
        if found:
            return found
    if path.is_dir():
        return [_run(path)] if _is_run(path) else []
    if path.is_file() and JSONL in path.suffixes and path.suffix not in _PACKED:
        return [_file(path)]
    run = None if path.exists() else run_beside(path)
    return [_run(run)] if run and _is_run(run) else []


def _sources_in(folder: Path) -> Iterator[ViewerSource]:
    root = folder.resolve()
    for path in _names_in(folder, root):
        found = _sources_if_readable(path)
        yield from found
        if not found and path.is_dir():
            for below in _names_in(path, root):
                yield from _sources_if_readable(below)


def _sources_if_readable(path: Path) -> Sequence[ViewerSource]:
    """The sources at a path in a folder. A broken one is logged and left out."""
    try:
        return _source_at(path) if path.is_dir() or path.is_file() else []
    except StoreError as error:
        _log.warning("%s is skipped: %s", path, error)
        return []


def _names_in(folder: Path, root: Path) -> list[Path]:
    """The visible paths in a folder that do not belong to another file there."""
    with storage_errors(folder, "looking for rollouts"):
        listed = list(islice(folder.iterdir(), MOST_FILES))
    visible = sorted(path for path in listed if not path.name.startswith("."))
    names = {path.name for path in listed}
    return [path for path in visible if not _is_owned(path.name, names) and is_inside(path, root)]


def _is_owned(name: str, names: set[str]) -> bool:
    if OPENING_LOCK in names and (name == INPUTS or is_journal(Path(name))):
        return True  # of a run that is just starting
    endings = (_FAILURES, _INPUTS, RUN_SUFFIX)
    return any(
        name.endswith(ending) and name.removesuffix(ending) + JSONL in names for ending in endings
    )


def _is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file() or bool(journal_paths(folder))


def _run(folder: Path) -> ViewerSource:
    root = folder.resolve()
    return ViewerSource(
        id="",
        title=root.name,
        kind="run",
        path=folder,
        parts=tuple(
            SourcePart(path, JOURNAL) for path in journals_of(folder) if is_inside(path, root)
        ),
        inputs=_present(inputs_path(folder), root),
        manifest=_present(folder / MANIFEST, root),
        root=root,
    )


def _file(path: Path) -> ViewerSource:
    if is_journal(path) and (path.parent / MANIFEST).is_file():
        run = _run(path.parent)
        return msgspec.structs.replace(
            run, path=path, title=f"{run.title}/{path.name}", parts=(SourcePart(path, JOURNAL),)
        )
    if path.suffix != JSONL or path.name.endswith((_FAILURES, _INPUTS)):
        return _alone(path)
    paths, run_folder, beside = RolloutPaths.of(path), run_beside(path), path.parent.resolve()
    parts = [SourcePart(path, ROLLOUTS)]
    if is_inside(paths.failures, beside):
        parts.append(SourcePart(paths.failures, ROLLOUTS))
    inputs = [paths.materialized_inputs, *([inputs_path(run_folder)] if run_folder else [])]
    return ViewerSource(
        id="",
        title=path.name,
        kind="rollouts",
        path=path,
        parts=tuple(parts),
        inputs=next((each for each in inputs if _present(each, beside)), None),
        manifest=_present(run_folder / MANIFEST, beside) if run_folder else None,
        root=beside,
    )


def _alone(path: Path) -> ViewerSource:
    kinds = {_FAILURES: "failures", _INPUTS: "inputs"}
    kind = next((kind for end, kind in kinds.items() if path.name.endswith(end)), "rollouts")
    return ViewerSource(
        id="", title=path.name, kind=kind, path=path, parts=(SourcePart(path, ROLLOUTS),)
    )


def _present(path: Path, root: Path) -> Path | None:
    return path if path.is_file() and is_inside(path, root) else None


@cache
def _plugins() -> tuple[Opener, ...]:
    """Raises ViewerError."""
    return tuple(_loaded(point) for point in entry_points(group=ENTRY_POINTS))


def _loaded(point: EntryPoint) -> Opener:
    opener: Opener = load_plugin(point, "the viewer's plug-in", ViewerError)
    if not callable(opener):
        raise ViewerError(
            f"the viewer's plug-in {point.name} ({point.value}) is not a function: it must take a "
            "path and return the sources there"
        )
    return opener


def _place(source: ViewerSource) -> Path:
    """Equal for the same name in the same folder, through whatever path it was found."""
    return source.path.parent.resolve() / source.path.name


def _with_ids(found: Sequence[ViewerSource], taken: set[str]) -> tuple[ViewerSource, ...]:
    """Give the sources readable ids, which are the same whenever the same paths are opened."""
    named = []
    for source in found:
        identity = next(name for name in _candidates(source) if name not in taken)
        taken.add(identity)
        named.append(msgspec.structs.replace(source, id=identity))
    return tuple(named)


def _candidates(source: ViewerSource) -> Iterator[str]:
    name = source.id or source.path.resolve().name.removesuffix(JSONL)
    folder = source.path.resolve().parent.name
    plain, longer = _slug(name), _slug(f"{folder}-{name}")
    yield plain
    yield longer
    yield from (f"{longer}-{number}" for number in count(2))


def _slug(name: str) -> str:
    return _NOT_IN_IDS.sub("-", name).strip("-.")[:_LONGEST_ID] or "source"


def _nothing_at(path: Path) -> ViewerError:
    if path.suffix in _PACKED and path.exists():
        return ViewerError(f"{path} is compressed: decompress it first, and name the *{JSONL} file")
    if path.exists():
        return ViewerError(
            f"the viewer cannot show {path}: name a file of rollouts, such as results/x{JSONL}, "
            "or a run directory"
        )
    beside = (each for each in path.parent.glob("*") if each.suffix == JSONL or each.is_dir())
    names = [each.name for each in islice(beside, MOST_FILES)]
    return ViewerError(
        f"{path} does not exist{suggestion(path.name, names)}: check the path, or collect "
        "rollouts first with ng_collect_rollouts"
    )
