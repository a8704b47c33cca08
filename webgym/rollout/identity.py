"""Whether a command means the iteration that is there, and what to do where it does not.

An iteration is what its sample was drawn from and what its run was begun with. Both are compared
before anything starts, and before a finished iteration is told about.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rollgym.store import IdentityError, differences, read_manifest, settings_identity
from webgym.iteration.paths import ITERATION_ADVICE
from webgym.iteration.sample import Sample, SampleOrigin


def require_same_sample(path: Path, origin: SampleOrigin) -> None:
    """Raises IdentityError where the sample that is there was drawn from something else."""
    if path.exists():
        Sample(path).require(origin)


def require_same_run(directory: Path, config: Mapping[str, Any]) -> None:
    """Raises IdentityError where the run that is there was begun with other values in `config`.

    What else the run knows of is not compared.
    """
    manifest = read_manifest(directory, ITERATION_ADVICE)
    if manifest is None:
        return
    begun = manifest.identity
    known = {name: value for name, value in begun.config.items() if _root(name) in config}
    given = settings_identity(config)
    lines = differences(
        msgspec.structs.replace(begun, config=known),
        msgspec.structs.replace(begun, config=given.values, left_out=tuple(given.left_out)),
    )
    if lines:
        listed = "\n  ".join(lines)
        raise IdentityError(
            f"{directory} was begun with other settings than those given:\n  {listed}\n"
            "Nothing was changed. Give the same settings to continue it. Otherwise "
            f"{ITERATION_ADVICE.another_run}."
        )


def _root(name: str) -> str:
    """The first part of a dotted path."""
    return name.partition(".")[0].partition("[")[0]
