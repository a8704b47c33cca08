"""Promise 2: a reward is what the verifier gave, and the coverage is what is on disk."""

from rollgym.engine import Coverage, ExitStatus
from tests.simulation.invariants.violation import require
from tests.simulation.log import Cancelled, Ended, Written
from tests.simulation.plan import Plan
from tests.simulation.records import Key, Record
from tests.simulation.story import Chapter, Story

PROMISE = 2


def check_truth(story: Story) -> None:
    for chapter in story.chapters:
        _records_say_what_workers_did(chapter)
        if chapter.coverage is not None:
            _coverage_is_what_is_on_disk(story.plan, chapter, chapter.coverage)
            _exit_status_follows(chapter.coverage)


def _records_say_what_workers_did(chapter: Chapter) -> None:
    ended: dict[tuple[Key, int], Ended] = {}
    cancelled: set[tuple[Key, int]] = set()
    for event in chapter.events:
        match event:
            case Ended():
                ended[event.key, event.attempt] = event
            case Cancelled():
                cancelled.add((event.key, event.attempt))
            case Written(record=record):
                name = (record.key, record.attempt)
                _record_is_true(chapter, record, ended.get(name), left_alone=name not in cancelled)


def _record_is_true(
    chapter: Chapter, record: Record, ended: Ended | None, *, left_alone: bool
) -> None:
    returned = ended.reward if ended is not None else None
    if record.status == "completed":
        require(
            record.reward is not None and record.reward == returned and record.final,
            PROMISE,
            f"life {chapter.number} recorded {record}, but the worker returned {returned}",
        )
    else:
        require(
            record.reward is None,
            PROMISE,
            f"life {chapter.number} recorded a reward without a completion: {record}",
        )
        require(
            returned is None or not left_alone,
            PROMISE,
            f"life {chapter.number} recorded {record}, but the worker returned {returned}",
        )


def _coverage_is_what_is_on_disk(plan: Plan, chapter: Chapter, coverage: Coverage) -> None:
    keys = plan.keys(chapter.life.shard)
    by_key = {
        key: chapter.current_after[key].status for key in keys if key in chapter.current_after
    }
    statuses = list(by_key.values())
    on_disk = {
        "expected": len(keys),
        "completed": statuses.count("completed"),
        "failed": statuses.count("failed"),
        "omitted": statuses.count("omitted"),
        "unresolved": len(keys) - len(statuses),
        "groups": len({task for task, _ in keys}),
        "groups_complete": _complete_groups(keys, by_key),
        "resumed": sum(key in chapter.current_before for key in keys),
        "attempts": len(chapter.acknowledged),
    }
    said = {name: getattr(coverage, name) for name in on_disk}
    require(
        said == on_disk,
        PROMISE,
        f"life {chapter.number} says {said}, and on disk there is {on_disk}",
    )
    require(
        len(chapter.acknowledged) == len(chapter.written),
        PROMISE,
        f"life {chapter.number} returned with records that are not synced",
    )


def _complete_groups(keys: list[Key], statuses: dict[Key, str]) -> int:
    incomplete = {task for task, repeat in keys if statuses.get((task, repeat)) != "completed"}
    return len({task for task, _ in keys} - incomplete)


def _exit_status_follows(coverage: Coverage) -> None:
    if coverage.completed + coverage.failed + coverage.omitted < coverage.expected:
        right = ExitStatus.STOPPED if coverage.stopped else ExitStatus.INTERRUPTED
    elif coverage.failed:
        right = ExitStatus.FAILED
    elif coverage.omitted:
        right = ExitStatus.OMITTED
    else:
        right = ExitStatus.COMPLETE
    require(
        coverage.exit_status is right,
        PROMISE,
        f"the exit status is {coverage.exit_status!r} for {coverage}",
    )
