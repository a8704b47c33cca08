"""The manifest: which run a directory holds."""

from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import msgspec

from rollgym.records import SCHEMA_VERSION
from rollgym.store.disk import Disk, write_atomically
from rollgym.store.errors import IdentityError, ManifestError, storage_error
from rollgym.store.identity import Identity, differences
from rollgym.store.layout import MANIFEST

FORCE_NEW_RUN = "+resume=false or --force-new-run; the old one is kept beside it"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Written once, when the run is made."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    created: str
    identity: Identity

    @classmethod
    def new(cls, identity: Identity) -> "Manifest":
        created = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(run_id=uuid4().hex, created=created, identity=identity)


def read_manifest(directory: Path) -> Manifest | None:
    """None where the directory holds no run. Raises ManifestError for one we cannot read."""
    path = directory / MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "reading the manifest") from error
    except msgspec.DecodeError as error:
        raise ManifestError(
            f"{path}: this is no manifest of a run ({error}). Restore it from a copy, or ask for "
            f"a new run in its place ({FORCE_NEW_RUN})."
        ) from error
    if manifest.schema_version > SCHEMA_VERSION:
        raise ManifestError(
            f"{path}: the run has schema version {manifest.schema_version}, this program knows "
            f"up to {SCHEMA_VERSION}: upgrade rollgym to open it"
        )
    return manifest


def write_manifest(directory: Path, manifest: Manifest, disk: Disk) -> None:
    path = directory / MANIFEST
    data = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
    try:
        write_atomically(disk, path, data)
    except OSError as error:
        raise storage_error(error, path, "writing the manifest") from error


def require_same(directory: Path, manifest: Manifest, asked: Identity, hint: str = "") -> None:
    """Raises IdentityError, naming every difference."""
    lines = differences(manifest.identity, asked)
    if lines:
        listed = "\n  ".join([*lines, hint] if hint else lines)
        raise IdentityError(
            f"{directory} holds another run than the one asked for:\n  {listed}\n"
            "Nothing was changed. Give the same inputs and settings to continue that run, choose "
            f"another directory, or ask for a new run in its place ({FORCE_NEW_RUN})."
        )
