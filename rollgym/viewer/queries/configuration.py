"""The configurations of several runs: what is the same in all, and what differs.

A run without a manifest has no value of anything, so beside it everything differs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from rollgym.store import Manifest


class Run(NamedTuple):
    """A source, and its manifest if it has one."""

    id: str
    title: str
    manifest: Manifest | None


class RunName(msgspec.Struct, frozen=True):
    id: str
    title: str


class Constant(msgspec.Struct, frozen=True):
    """A setting that is the same in all runs: a text as it is, everything else as JSON."""

    name: str
    value: str


class Difference(msgspec.Struct, frozen=True):
    """A setting with its value in each run, None where it has none."""

    name: str
    values: tuple[str | None, ...]


class Configuration(msgspec.Struct, frozen=True):
    """`values` of the differences are in the order of `sources`."""

    sources: tuple[RunName, ...]
    constants: tuple[Constant, ...]
    differences: tuple[Difference, ...]


def configuration(runs: Sequence[Run]) -> Configuration:
    """Names are in alphabetical order, those of the inputs and the seed first."""
    settings = [_settings(run.manifest) for run in runs]
    names = dict.fromkeys(name for each in settings for name in list(each)[:_FIXED])
    names.update(dict.fromkeys(sorted({name for each in settings for name in each})))
    constants, differences = [], []
    for name in names:
        values = tuple(each.get(name) for each in settings)
        first = values[0]
        if first is not None and all(value == first for value in values):
            constants.append(Constant(name, first))
        else:
            differences.append(Difference(name, values))
    return Configuration(
        tuple(RunName(run.id, run.title) for run in runs), tuple(constants), tuple(differences)
    )


_FIXED = 4
"""How many settings every manifest has, beside its configuration."""


def _settings(manifest: Manifest | None) -> dict[str, str]:
    if manifest is None:
        return {}
    identity = manifest.identity
    return {
        "inputs.tasks": str(identity.inputs.tasks),
        "inputs.rollouts": str(identity.inputs.rollouts),
        "inputs.sha256": identity.inputs.sha256,
        "seed": str(identity.seed),
    } | {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in identity.config.items()
    }
