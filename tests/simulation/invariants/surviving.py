"""Whatever workers do, a collection goes on; it ends early only for a reason from the plan."""

from tests.simulation.invariants.violation import Violation, require
from tests.simulation.plan import Plan
from tests.simulation.story import Chapter, Ending, Story


def check_surviving(story: Story) -> None:
    for chapter in _chapters(story):
        _require_reason(story.plan, chapter)
        require(
            not chapter.complaints,
            3,
            f"life {chapter.number}: errors that only the event loop saw: {chapter.complaints}",
        )


def _chapters(story: Story) -> list[Chapter]:
    chapters = list(story.chapters)
    if story.fork is not None:
        chapters.append(story.fork)
    if story.merging is not None:
        chapters.append(story.merging.resumed)
    return chapters


def _require_reason(plan: Plan, chapter: Chapter) -> None:
    life = chapter.life
    match chapter.ending:
        case Ending.RETURNED:
            reason = chapter.coverage is not None
        case Ending.DIED:
            reason = life.death is not None
        case Ending.STORAGE:
            reason = chapter.fault is not None
        case Ending.STUCK:
            reason = life.max_abandoned < len(plan.keys(life.shard)) * 16
        case Ending.CANCELLED:
            reason = life.cancelled_at is not None
        case Ending.BROKEN:
            reason = False
    if not reason:
        raise Violation(
            3, f"life {chapter.number} {chapter.ending}: {chapter.error!r}"
        ) from chapter.error
