"""From a path to what an export reads.

Plug-ins are asked first: each entry point of the group `rollgym.export_sources` names a
`SourceOpener`. Otherwise it is a file of rollouts, the run directory beside one, or a folder with
one.
"""

from importlib.metadata import entry_points
from pathlib import Path

from rollgym.export.rollouts import RolloutFile
from rollgym.export.source import ExportError, RolloutSource, SourceOpener
from rollgym.rollouts.paths import JSONL, RUN_SUFFIX

ENTRY_POINTS = "rollgym.export_sources"


def open_source(path: Path) -> RolloutSource:
    """The completed rollouts at a path. Raises ExportError, StoreError."""
    for point in entry_points(group=ENTRY_POINTS):
        try:
            opener: SourceOpener = point.load()
        except Exception as error:
            raise ExportError(
                f"the plug-in {point.name} ({point.value}) cannot be loaded "
                f"({type(error).__name__}: {error}): fix or uninstall its package"
            ) from error
        found = opener(path)
        if found is not None:
            return found
    return RolloutFile(_rollouts_file(path))


def _rollouts_file(path: Path) -> Path:
    """The file that a path names, or that a folder has. Raises ExportError."""
    if not path.is_dir():
        return path
    found = _files_in(path)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(map(str, found))
        raise ExportError(f"{path} has {len(found)} files of rollouts. Give one of them: {names}")
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
