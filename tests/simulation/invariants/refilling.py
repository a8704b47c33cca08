"""Groups heal as far as their budget allows, and the engine says when nothing more will come."""

from tests.simulation.invariants.violation import require
from tests.simulation.log import Asked, Over, Started
from tests.simulation.plan import Plan
from tests.simulation.reruns import is_refilled, reruns_by_task
from tests.simulation.story import Chapter, Ending, Story

PROMISE = 1


def check_refilling(story: Story) -> None:
    for chapter in story.chapters:
        _groups_are_over_once(chapter)
        if _ended_by_itself(story.plan, chapter):
            _budgets_are_used_up(story.plan, chapter)
            _groups_are_over(chapter)


def _ended_by_itself(plan: Plan, chapter: Chapter) -> bool:
    stopped = any(isinstance(event, Asked) and "stop" in event.what for event in chapter.events)
    stopped = stopped or chapter.coverage is None or chapter.coverage.stopped is not None
    whole = plan.policy.completion_threshold == 1
    return chapter.ending is Ending.RETURNED and whole and not stopped


def _groups_are_over_once(chapter: Chapter) -> None:
    """Nothing of a group begins after its end, unless somebody asked for it."""
    over: set[int] = set()
    for event in chapter.events:
        match event:
            case Asked(what=what) if what.startswith("retry"):
                return
            case Started(key=(task, _)):
                require(
                    task not in over,
                    PROMISE,
                    f"life {chapter.number} ran {event.key} after task {task} was over",
                )
            case Over(task=task):
                require(
                    task not in over,
                    PROMISE,
                    f"life {chapter.number} said twice that task {task} was over",
                )
                over.add(task)


def _groups_are_over(chapter: Chapter) -> None:
    over = {event.task for event in chapter.events if isinstance(event, Over)}
    began = {start.key[0] for start in chapter.starts}
    require(
        began <= over,
        PROMISE,
        f"life {chapter.number} did not say that these tasks are over: {began - over}",
    )


def _budgets_are_used_up(plan: Plan, chapter: Chapter) -> None:
    reruns = reruns_by_task(chapter.after)
    for key in plan.keys(chapter.life.shard):
        record = chapter.current_after[key]
        require(
            not is_refilled(record) or reruns[key[0]] >= chapter.life.refills,
            PROMISE,
            f"life {chapter.number} left {record}, with {reruns[key[0]]} of "
            f"{chapter.life.refills} refills used",
        )
