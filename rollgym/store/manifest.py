"""The manifest: the identity of the run in a directory.

The identity is what must be equal for two commands to mean the same run: the inputs, the seed, and
the part of the configuration that can change results. `settings` says which part that is.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from rollgym.records import SCHEMA_VERSION
from rollgym.records.decoding import decode_json
from rollgym.store.disk import SYNC_TIMEOUT, Disk, replace_in_background, write_atomically
from rollgym.store.errors import IdentityError, ManifestError, storage_error, storage_errors
from rollgym.store.layout import MANIFEST
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


class OpenAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller's user can do when a run is not opened; it ends the error messages.

    A command passes advice in terms of its own options. The defaults are for Python code that
    calls `open_run`. `another_run` completes "Otherwise ..."; `sharing` is a whole sentence.
    """

    another_run: str = (
        "choose another directory, or pass force_new_run=True to start a new run in its place "
        "(the old run is kept beside it)"
    )
    sharing: str = "Several processes can share a run when each collects a shard."


DEFAULT_ADVICE = OpenAdvice()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `manifest.json`, written when the run is made and when it grows.

    `repeats_grown` says that tasks got more repeats, so that earlier records have smaller numbers
    of repeats than the inputs.
    """

    schema_version: int = SCHEMA_VERSION
    run_id: str
    created: str
    identity: Identity
    repeats_grown: bool = False

    @classmethod
    def new(cls, identity: Identity) -> "Manifest":
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(run_id=uuid4().hex, created=created, identity=identity)


def read_manifest(directory: Path, advice: OpenAdvice | None = None) -> Manifest | None:
    """Return None for a directory without a run.

    Raises ManifestError for a manifest that cannot be read. `advice` says what a command that
    wants to write the run can do instead.
    """
    path = directory / MANIFEST
    try:
        manifest = decode_json(path.read_bytes(), Manifest)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "reading the manifest") from error
    except msgspec.DecodeError as error:
        alternative = f" Otherwise {advice.another_run}." if advice else ""
        raise ManifestError(
            f"{path} is not the manifest of a run ({error}). Restore it from a copy.{alternative}"
        ) from error
    if manifest.schema_version > SCHEMA_VERSION:
        raise ManifestError(
            f"{path}: the run has schema version {manifest.schema_version}, but this program reads "
            f"versions up to {SCHEMA_VERSION}. Upgrade rollgym to open it."
        )
    return manifest


def write_manifest(directory: Path, manifest: Manifest, disk: Disk) -> None:
    path = directory / MANIFEST
    with storage_errors(path, "writing the manifest"):
        write_atomically(disk, path, _encode(manifest))


async def replace_manifest(directory: Path, manifest: Manifest, disk: Disk) -> None:
    """As `write_manifest`, without blocking the event loop. Raises StorageError."""
    path = directory / MANIFEST
    with storage_errors(path, "writing the manifest"):
        await replace_in_background(disk, path, _encode(manifest), SYNC_TIMEOUT)


def _encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def require_same(
    directory: Path, manifest: Manifest, asked: Identity, advice: OpenAdvice, hint: str = ""
) -> None:
    """Raises IdentityError, naming every difference."""
    lines = differences(manifest.identity, asked)
    if lines:
        listed = "\n  ".join([*lines, hint] if hint else lines)
        raise IdentityError(
            f"{directory} holds a different run:\n  {listed}\n"
            "Nothing was changed. Give the same inputs and settings to continue that run. "
            f"Otherwise {advice.another_run}."
        )
