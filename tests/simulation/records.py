"""The journals, read with nothing but `json`: the simulation's own view of what is on disk."""

import json
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

Key = tuple[int, int]


class Record(NamedTuple):
    """One line of a journal."""

    journal: str
    line: bytes
    key: Key
    attempt: int
    final: bool
    status: str
    reward: float | None
    failure: str | None
    reason: str | None
    retryable: bool
    seed: int
    seconds: float

    @property
    def cut(self) -> bool:
        """Whether the attempt was cut, and its rollout started again."""
        return not self.final and self.reason == "cut"

    @property
    def completed(self) -> bool:
        return self.final and self.status == "completed"

    def __str__(self) -> str:
        what = self.failure or self.reason or ("" if self.reward is None else f"{self.reward!r}")
        final = "final" if self.final else "to be retried"
        return f"{self.key} attempt {self.attempt}: {self.status} {what} ({final})"


@lru_cache(maxsize=1024)
def parse_record(journal: str, line: bytes) -> Record:
    fields = json.loads(line)
    outcome = fields["outcome"]
    failure = outcome.get("failure", {})
    return Record(
        journal=journal,
        line=line,
        key=(fields["task"], fields["repeat"]),
        attempt=fields["attempt"],
        final=fields["final"],
        status=outcome["status"],
        reward=outcome.get("reward"),
        failure=failure.get("kind"),
        reason=outcome.get("reason"),
        retryable=failure.get("retryable", False),
        seed=fields["seed"],
        seconds=fields["seconds"],
    )


def read_bytes(directory: Path) -> dict[str, bytes]:
    """Every journal of a run, by name."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob("journal*.jsonl"))}


def parse_journals(journals: dict[str, bytes]) -> list[Record]:
    """Every whole line of every journal."""
    return [
        parse_record(name, line)
        for name, content in journals.items()
        for line in content.splitlines(keepends=True)
        if line.endswith(b"\n")
    ]


def current_records(records: Iterable[Record]) -> dict[Key, Record]:
    """Each rollout's outcome.

    A completed record comes before any other, then the latest attempt, then the smaller digest.
    """
    chosen: dict[Key, Record] = {}
    for record in records:
        if not record.final:
            continue
        rival = chosen.get(record.key)
        if rival is None or _rank(record) < _rank(rival):
            chosen[record.key] = record
    return chosen


def _rank(record: Record) -> tuple[bool, int, bytes]:
    return not record.completed, -record.attempt, sha256(record.line).digest()
