"""Whether a command means the iteration that is there, and what to do where it does not.

An iteration is what its sample was drawn from and what its run was begun with. Both are compared
before anything starts, and before a finished iteration is told about. What the store says about a
run is put into the words of this command, which has neither its flags nor its shards.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from rollgym.store import (
    IdentityError,
    ManifestError,
    RunBusyError,
    differences,
    read_manifest,
    result_relevant,
)
from rollgym.store.manifest import FORCE_NEW_RUN
from webgym.iteration.sample import Sample, SampleOrigin

_ADVICE = "choose another iteration=… or another save_path=…"
_WORDS = {
    f"choose another directory, or ask for a new run in its place ({FORCE_NEW_RUN})": _ADVICE,
    f"ask for a new run in its place ({FORCE_NEW_RUN})": _ADVICE,
    "Several processes can share a run when each collects a shard.": (
        "Several processes can share an iteration as ranks: give each its RANK, and all the same "
        "WORLD_SIZE."
    ),
}


def require_same_sample(path: Path, origin: SampleOrigin) -> None:
    """Raises IdentityError where the sample that is there was drawn from something else."""
    if path.exists():
        Sample(path).require(origin)


def require_same_run(directory: Path, config: Mapping[str, Any]) -> None:
    """Raises IdentityError where the run that is there was begun with other values in `config`.

    What else the run knows of is not compared.
    """
    manifest = read_manifest(directory)
    if manifest is None:
        return
    begun = manifest.identity
    known = {name: value for name, value in begun.config.items() if _root(name) in config}
    lines = differences(
        msgspec.structs.replace(begun, config=known),
        msgspec.structs.replace(begun, config=result_relevant(config)),
    )
    if lines:
        listed = "\n  ".join(lines)
        raise IdentityError(
            f"{directory} was begun with other settings than those given:\n  {listed}\n"
            f"Nothing was changed. Give the same settings to go on with it, or {_ADVICE}."
        )


@contextmanager
def own_words() -> Iterator[None]:
    """Refusals of the store leave the block with advice that this command can follow."""
    try:
        yield
    except (IdentityError, ManifestError, RunBusyError) as error:
        said = str(error)
        for theirs, ours in _WORDS.items():
            said = said.replace(theirs, ours)
        raise type(error)(said) from error


def _root(name: str) -> str:
    """The first part of a dotted path."""
    return name.partition(".")[0].partition("[")[0]
