"""The manifest: the identity of the run in a directory."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import msgspec

from rollgym.records import SCHEMA_VERSION
from rollgym.records.decoding import decode_json
from rollgym.store.disk import SYNC_TIMEOUT, Disk, replace_in_background, write_atomically
from rollgym.store.errors import IdentityError, ManifestError, storage_error, storage_errors
from rollgym.store.identity import Identity, differences
from rollgym.store.layout import MANIFEST


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
