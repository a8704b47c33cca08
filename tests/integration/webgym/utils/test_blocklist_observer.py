"""What a blocklist is told about rollouts that were recorded."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollgym.engine import AttemptRecorded
from rollgym.records import Attempt, Completed, Failed, Failure, FailureKind, Outcome
from rollgym.store import StorageError, TaskLookup
from webgym.utils.blocklist import Blocklist, BlocklistObserver, BlocklistSettings

WEBSITES = ("http://open.test/a", "https://www.wall.test/", "{sites}/captcha/")


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[TaskLookup]:
    rows = [{"task_name": "Look", "website": website} for website in WEBSITES]
    lines = [{"task": at, "repeats": 1, "row": row} for at, row in enumerate(rows)]
    path = tmp_path / "inputs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with TaskLookup(path) as lookup:
        yield lookup


def recorded(task: int, outcome: Outcome) -> AttemptRecorded:
    attempt = Attempt(
        task=task,
        repeat=0,
        repeats=1,
        attempt=1,
        final=True,
        seed=1,
        started=0.0,
        seconds=1.0,
        outcome=outcome,
    )
    return AttemptRecorded(attempt, Path("journal.jsonl"), 0, None)


def completed(*, blocked: bool) -> Completed:
    return Completed(0.0, success=False, measures={"blocked": float(blocked)})


def test_a_domain_is_learnt_from_completed_rollouts_alone(
    tmp_path: Path, tasks: TaskLookup
) -> None:
    blocklist = Blocklist(tmp_path / "blocklist.jsonl", BlocklistSettings(observations=1))
    failed = Failed(Failure(FailureKind.BROWSER, "gone"))
    events = [recorded(0, failed), recorded(0, completed(blocked=False))]
    BlocklistObserver(blocklist, tasks).observe([*events, recorded(1, completed(blocked=True))])
    assert blocklist.blocked_domains() == {"wall.test"}


def test_nothing_is_learnt_about_the_bundled_sites(tmp_path: Path, tasks: TaskLookup) -> None:
    blocklist = Blocklist(tmp_path / "blocklist.jsonl", BlocklistSettings(observations=1))
    BlocklistObserver(blocklist, tasks).observe([recorded(2, completed(blocked=True))])
    assert blocklist.path.read_bytes() == b""


def test_a_blocklist_that_cannot_be_written_is_reported_and_the_next_is_learnt(
    tasks: TaskLookup, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    class FullDisk:
        def observe(self, host: str, blocked: bool) -> None:
            told.append(host)
            if host == "open.test":
                raise StorageError("the disk is full")

    events = [recorded(0, completed(blocked=False)), recorded(1, completed(blocked=True))]
    BlocklistObserver(FullDisk(), tasks).observe(events)
    assert told == ["open.test", "wall.test"]
    assert "observation of open.test: the disk is full" in caplog.text
