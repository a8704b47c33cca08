"""Where the files of one collection are, all named after its output."""

from pathlib import Path
from typing import NamedTuple

from rollgym.store import WHOLE, InputsError, Shard

RUN_SUFFIX = ".run"


class RolloutPaths(NamedTuple):
    """`run` holds the journal, which is the truth; the others are made from it.

    The shards of one collection share the run; their files are named apart.
    """

    output: Path
    failures: Path
    materialized_inputs: Path
    aggregate_metrics: Path
    run: Path

    @classmethod
    def of(cls, output: Path, shard: Shard = WHOLE) -> "RolloutPaths":
        """Raises InputsError for a name that is no JSONL file's."""
        if output.suffix != ".jsonl":
            raise InputsError(
                f"the output {output} must be named *.jsonl: its rows are written there, and the "
                "other files of the collection are named after it"
            )
        stem = output.with_suffix("")
        part = "" if shard == WHOLE else f"_shard-{shard.index}-of-{shard.count}"
        return cls(
            output=stem.with_name(f"{stem.name}{part}.jsonl"),
            failures=stem.with_name(f"{stem.name}{part}_failures.jsonl"),
            materialized_inputs=stem.with_name(f"{stem.name}{part}_materialized_inputs.jsonl"),
            aggregate_metrics=stem.with_name(f"{stem.name}{part}_aggregate_metrics.json"),
            run=stem.with_name(f"{stem.name}{RUN_SUFFIX}"),
        )

    @property
    def derived(self) -> tuple[Path, ...]:
        """The files that are made from the run."""
        return (self.output, self.failures, self.materialized_inputs, self.aggregate_metrics)


def put_aside(paths: RolloutPaths) -> None:
    """Rename what an earlier collection left, so that nothing of it is lost or mixed in."""
    present = [path for path in paths.derived if path.exists()]
    number = 1
    while any(_aside(path, number).exists() for path in paths.derived):
        number += 1
    for path in present:
        path.rename(_aside(path, number))


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.previous-{number}")
