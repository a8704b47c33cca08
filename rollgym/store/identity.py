"""The identity of a run: what must be equal for two commands to mean the same run.

The inputs, the seed, and the part of the configuration that can change results. `settings` says
which part that is.
"""

from typing import Any

import msgspec

from rollgym.store.settings import is_operational

_ABSENT = object()


class InputsIdentity(msgspec.Struct, frozen=True):
    """The materialised inputs: how many, and the SHA-256 of them all."""

    tasks: int
    rollouts: int
    sha256: str


class Identity(msgspec.Struct, frozen=True):
    """What makes a run this run. `config` is flat: a dotted path to each value.

    `left_out` has the paths of settings that were given but do not belong to the identity. It is
    None in runs of versions that judged all settings by their names.
    """

    inputs: InputsIdentity
    config: dict[str, Any]
    seed: int
    left_out: tuple[str, ...] | None = None


def differences(
    one: Identity, other: Identity, here: str = "in the run", there: str = "now"
) -> list[str]:
    """What differs, a line each; empty when they are the same run.

    A setting that either of them leaves out is not compared: its mark may have changed in between.
    """
    compared: list[tuple[str, Any, Any]] = [
        ("inputs", one.inputs, other.inputs),
        ("seed", one.seed, other.seed),
    ]
    for name in sorted(one.config.keys() | other.config.keys()):
        ours, theirs = (part.config.get(name, _ABSENT) for part in (one, other))
        absent = one if ours is _ABSENT else other if theirs is _ABSENT else None
        if absent is None or not _leaves_out(absent, name, theirs if absent is one else ours):
            compared.append((name, ours, theirs))
    return [
        f"{name}: {_show(ours)} {here}, {_show(theirs)} {there}"
        for name, ours, theirs in compared
        if ours != theirs
    ]


def _leaves_out(identity: Identity, name: str, value: Any) -> bool:
    """Whether a setting is absent because it does not belong to this identity."""
    if identity.left_out is None:
        return is_operational(name, value)
    return any(
        name == path or name.startswith((f"{path}.", f"{path}[")) for path in identity.left_out
    )


def _show(value: Any) -> str:
    match value:
        case InputsIdentity(tasks=tasks, rollouts=rollouts, sha256=digest):
            return f"{tasks} tasks, {rollouts} rollouts (sha256 {digest[:12]}…)"
        case _ if value is _ABSENT:
            return "absent"
        case _:
            return msgspec.json.encode(value).decode()
