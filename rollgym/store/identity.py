"""The identity of a run: what must be equal for two commands to mean the same run.

Inputs, seed, and the part of the configuration that can change results. Credentials, addresses and
concurrency cannot, and a resumed run may change them. They are told by the name of the setting,
addresses also by their value; a front door can name more.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

_CREDENTIAL = re.compile(
    r"(.*_)?(api_?keys?|passwords?|passwd|secrets?|credentials?|authorization|cookies?)"
    r"|token|(.*_)?(access|api|auth|bearer|cluster|session|refresh)_token"
)
_ADDRESS = re.compile(r"(.*_)?(ur[il]s?|hosts?|hostname|host_ip|ports?|address(es)?|endpoints?)")
_CONCURRENCY = re.compile(
    r"(max_|model_|browser_|judge_)?concurrency|num_samples_in_parallel|(num_)?workers"
    r"|(num_)?processes|server_size|max_in_flight"
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://\S*", re.IGNORECASE)
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


def differences(run: Identity, asked: Identity) -> list[str]:
    """What differs, a line each; empty when they are the same run."""
    lines = []
    if run.inputs != asked.inputs:
        lines.append(f"inputs: {_describe(run.inputs)} in the run, {_describe(asked.inputs)} now")
    if run.seed != asked.seed:
        lines.append(f"seed: {run.seed} in the run, {asked.seed} now")
    for name in sorted(run.config.keys() | asked.config.keys()):
        before, now = run.config.get(name, _ABSENT), asked.config.get(name, _ABSENT)
        if before != now:
            lines.append(f"{name}: {_show(before)} in the run, {_show(now)} now")
    return lines


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


def _describe(inputs: InputsIdentity) -> str:
    return f"{inputs.tasks} tasks, {inputs.rollouts} rollouts (sha256 {inputs.sha256[:12]}…)"


def _show(value: Any) -> str:
    return "absent" if value is _ABSENT else msgspec.json.encode(value).decode()
