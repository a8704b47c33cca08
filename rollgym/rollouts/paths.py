"""The paths of a collection's files, all named after its output."""

import re
from pathlib import Path
from typing import NamedTuple

from rollgym.store import WHOLE, InputsError, Shard
from rollgym.store.errors import storage_errors

JSONL = ".jsonl"
RUN_SUFFIX = ".run"
FAILURES_END, INPUTS_END = "_failures", "_materialized_inputs"
"""The ends of the names of failed attempts and of inputs, before their suffix."""
_SHARD_PART = re.compile(r"_shard-\d+-of-\d+$")


class RolloutPaths(NamedTuple):
    """`run` holds the journal; the other files are derived from it.

    The shards of one collection share the run and have files of different names.
    """

    output: Path
    failures: Path
    materialized_inputs: Path
    aggregate_metrics: Path
    run: Path

    @classmethod
    def of(cls, output: Path, shard: Shard = WHOLE) -> "RolloutPaths":
        """Raises InputsError for a name that does not end in `.jsonl`."""
        if output.suffix != JSONL:
            raise InputsError(
                f"the output {output} must end in {JSONL}: the rollouts are written there, and the "
                "other files of the collection are named after it"
            )
        stem = output.with_suffix("")
        part = "" if shard == WHOLE else f"_shard-{shard.index}-of-{shard.count}"
        return cls(
            output=stem.with_name(f"{stem.name}{part}{JSONL}"),
            failures=stem.with_name(f"{stem.name}{part}{FAILURES_END}{JSONL}"),
            materialized_inputs=stem.with_name(f"{stem.name}{part}{INPUTS_END}{JSONL}"),
            aggregate_metrics=stem.with_name(f"{stem.name}{part}_aggregate_metrics.json"),
            run=stem.with_name(f"{stem.name}{RUN_SUFFIX}"),
        )

    @property
    def derived(self) -> tuple[Path, ...]:
        """The files that are derived from the run."""
        return (self.output, self.failures, self.materialized_inputs, self.aggregate_metrics)


def run_beside(output: Path) -> Path | None:
    """The run directory that a file of rollouts, or of one of its shards, was derived from."""
    if output.suffix != JSONL:
        return None
    stem = output.with_suffix("").name
    names = dict.fromkeys((stem, _SHARD_PART.sub("", stem)))
    runs = (output.with_name(f"{name}{RUN_SUFFIX}") for name in names)
    return next((run for run in runs if run.is_dir()), None)


def rollouts_and_failures(path: Path) -> tuple[Path, Path]:
    """The files of the rollouts and of the failed attempts of a collection, from one of the two."""
    stem = path.with_suffix("").name
    output = stem.removesuffix(FAILURES_END)
    failures = path.with_name(f"{output}{FAILURES_END}{path.suffix}")
    return path.with_name(f"{output}{path.suffix}"), failures


def rename_old_files(paths: RolloutPaths) -> None:
    """Rename the files of an earlier collection to `<name>.previous-<n>`. Raises StorageError."""
    present = [path for path in paths.derived if path.exists()]
    number = 1
    while any(_previous(path, number).exists() for path in paths.derived):
        number += 1
    for path in present:
        with storage_errors(path, "renaming the old file"):
            path.rename(_previous(path, number))


def _previous(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.previous-{number}")
