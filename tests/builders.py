"""Small real things for tests: tasks, records, runs on disk."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    Outcome,
    Row,
    Task,
    encode_attempt,
)
from rollgym.store import RunStore, open_run


def tasks(count: int, repeats: int = 1) -> Iterator[Task]:
    return (Task(index, Row.of({"question": index}), repeats) for index in range(count))


def record(
    task: int = 0,
    repeat: int = 0,
    *,
    repeats: int = 1,
    attempt: int = 1,
    final: bool = True,
    outcome: Outcome | None = None,
    started: float = 1000.0,
) -> Attempt:
    return Attempt(
        task=task,
        repeat=repeat,
        repeats=repeats,
        attempt=attempt,
        final=final,
        seed=0,
        started=started,
        seconds=1.0,
        outcome=outcome or Completed(1.0),
    )


def failed(kind: FailureKind = FailureKind.TOOL, detail: str = "it broke") -> Failed:
    return Failed(Failure.make(kind, detail))


def make_run(directory: Path, count: int = 4, repeats: int = 1, **options: Any) -> RunStore:
    return open_run(directory, tasks(count, repeats), **options)


def write_journal(path: Path, records: Iterable[Attempt]) -> None:
    path.write_bytes(b"".join(map(encode_attempt, records)))


def without_checksums(lines: bytes) -> bytes:
    """Records as versions without checksums wrote them."""
    return re.sub(rb',"crc32":"[0-9a-f]{8}"}', b"}", lines)


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
