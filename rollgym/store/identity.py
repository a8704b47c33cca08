"""The identity of a run: what must be equal for two commands to mean the same run.

Inputs, seed, and the part of the configuration that can change results. Credentials, addresses and
concurrency cannot, and a resumed run may change them. They are told by the name of the setting,
addresses of servers also by their value; a front door can name more.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

_CREDENTIAL = re.compile(
    r"(.*_)?(api_?keys?|passwords?|passwd|secrets?|credentials?|authorization)"
    r"|cookies?|token|(.*_)?(access|api|auth|bearer|cluster|session|refresh)_token"
)
_ADDRESS = re.compile(r"(.*_)?(ur[il]s?|hosts?|hostname|host_ip|ports?|address(es)?|endpoints?)")
_CONCURRENCY = re.compile(
    r"(max_|model_|browser_|judge_)?concurrency|num_samples_in_parallel|(num_)?workers"
    r"|(num_)?processes|server_size|max_in_flight"
)
_URL = re.compile(r"(https?|wss?|grpcs?|tcp|unix)://\S*", re.IGNORECASE)
_ABSENT = object()


class InputsIdentity(msgspec.Struct, frozen=True):
    """The materialised inputs: how many, and the SHA-256 of them all."""

    tasks: int
    rollouts: int
    sha256: str


class Identity(msgspec.Struct, frozen=True):
    """What makes a run this run. `config` is flat: a dotted path to each value."""

    inputs: InputsIdentity
    config: dict[str, Any]
    seed: int


def result_relevant(config: Mapping[str, Any], irrelevant: Collection[str] = ()) -> dict[str, Any]:
    """Flatten a configuration and leave out what cannot change results.

    `irrelevant` names further settings to leave out, by their last name or their whole path.
    Raises TypeError for a value that JSON cannot hold.
    """
    relevant = dict(_flatten(config, "", frozenset(irrelevant)))
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(relevant, order="sorted"))
    return plain


def differences(
    one: Identity, other: Identity, here: str = "in the run", there: str = "now"
) -> list[str]:
    """What differs, a line each; empty when they are the same run."""
    compared: list[tuple[str, Any, Any]] = [
        ("inputs", one.inputs, other.inputs),
        ("seed", one.seed, other.seed),
    ]
    for name in sorted(one.config.keys() | other.config.keys()):
        values = (part.config.get(name, _ABSENT) for part in (one, other))
        compared.append((name, *values))
    return [
        f"{name}: {_show(ours)} {here}, {_show(theirs)} {there}"
        for name, ours, theirs in compared
        if ours != theirs
    ]


def _flatten(value: Any, path: str, irrelevant: frozenset[str]) -> Iterator[tuple[str, Any]]:
    match value:
        case Mapping() if value:
            for name, part in value.items():
                inner = f"{path}.{name}" if path else str(name)
                if not _is_irrelevant(str(name), inner, irrelevant):
                    yield from _flatten(part, inner, irrelevant)
        case list() | tuple() if value:
            for number, part in enumerate(value):
                yield from _flatten(part, f"{path}[{number}]", irrelevant)
        case str() if _URL.fullmatch(value):
            return
        case _:
            yield path, value


def _is_irrelevant(name: str, path: str, irrelevant: frozenset[str]) -> bool:
    plain = name.lower().replace("-", "_")
    return (
        name in irrelevant
        or path in irrelevant
        or any(kind.fullmatch(plain) for kind in (_CREDENTIAL, _ADDRESS, _CONCURRENCY))
    )


def _show(value: Any) -> str:
    match value:
        case InputsIdentity(tasks=tasks, rollouts=rollouts, sha256=digest):
            return f"{tasks} tasks, {rollouts} rollouts (sha256 {digest[:12]}…)"
        case _ if value is _ABSENT:
            return "absent"
        case _:
            return msgspec.json.encode(value).decode()
