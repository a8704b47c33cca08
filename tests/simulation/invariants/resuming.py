"""Promise 4: resume knows what it resumes, and attempt history is kept."""

from collections import defaultdict

from tests.simulation.invariants.violation import require
from tests.simulation.records import Key, Record
from tests.simulation.story import Chapter, Story

PROMISE = 4


def check_resuming(story: Story) -> None:
    for chapter in story.chapters:
        _refuses_another_identity(chapter)
        _numbers_attempts_onwards(chapter)
    _history_has_no_gaps(story.last.after)


def _refuses_another_identity(chapter: Chapter) -> None:
    refusal = chapter.refusal
    if refusal is None:
        return
    require(
        refusal.message is not None and refusal.intrusion in refusal.message,
        PROMISE,
        f"before life {chapter.number} another {refusal.intrusion} was not refused by name: "
        f"{refusal.message}",
    )
    require(
        not refusal.changed,
        PROMISE,
        f"before life {chapter.number} refusing another {refusal.intrusion} changed the directory",
    )


def _numbers_attempts_onwards(chapter: Chapter) -> None:
    latest: dict[Key, int] = defaultdict(int)
    for record in chapter.before:
        latest[record.key] = max(latest[record.key], record.attempt)
    for written in chapter.written:
        record = written.record
        require(
            record.attempt == latest[record.key] + 1,
            PROMISE,
            f"life {chapter.number} recorded {record} after attempt {latest[record.key]}",
        )
        latest[record.key] = record.attempt


def _history_has_no_gaps(records: list[Record]) -> None:
    attempts: dict[Key, list[int]] = defaultdict(list)
    for record in records:
        attempts[record.key].append(record.attempt)
    for key, numbers in attempts.items():
        require(
            sorted(numbers) == list(range(1, len(numbers) + 1)),
            PROMISE,
            f"the attempts of {key} at the end are {sorted(numbers)}",
        )
