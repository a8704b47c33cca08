"""A run directory as the commands that only read it see it."""

from pathlib import Path

import msgspec

from rollgym.engine import Coverage
from rollgym.monitor import LiveMetrics, coverage_of, recount
from rollgym.rollouts.paths import JSONL, RolloutPaths, run_beside
from rollgym.store import Manifest, ManifestError, read_manifest


class RunOnDisk(msgspec.Struct, frozen=True):
    """What a run's files say, counted once."""

    manifest: Manifest
    metrics: LiveMetrics
    coverage: Coverage


def run_directory(text: str) -> Path:
    """The directory of a run, which may be named by an output file of its instead."""
    path = Path(text)
    if path.suffix != JSONL:
        return path
    return run_beside(path) or RolloutPaths.of(path).run


def require_manifest(directory: Path) -> Manifest:
    """Raises ManifestError where the directory holds no run, or one we cannot read."""
    manifest = read_manifest(directory)
    if manifest is None:
        raise ManifestError(
            f"{directory} holds no run: there is no manifest.json in it. Give the directory that "
            "a run was collected into."
        )
    return manifest


def read_run(directory: Path) -> RunOnDisk:
    """Count a run, streaming. Raises RefusedError, StorageError."""
    manifest = require_manifest(directory)
    metrics = recount(directory)
    coverage = coverage_of(manifest.identity.inputs, metrics.summary())
    return RunOnDisk(manifest, metrics, coverage)
