"""A simulation as text that a person can follow."""

from collections.abc import Iterator

import msgspec

from tests.simulation.log import Acknowledged, Event, Written
from tests.simulation.plan import Plan
from tests.simulation.story import Chapter, Story


def describe(story: Story) -> Iterator[str]:
    """Line by line: the plan, then every life with its events."""
    yield from _describe_plan(story.plan)
    for chapter in story.chapters:
        yield from _describe_chapter(chapter)
    if story.fork is not None:
        yield "the fork:"
        yield from _describe_chapter(story.fork)


def _describe_plan(plan: Plan) -> Iterator[str]:
    yield f"run seed {plan.run_seed}, policy {plan.policy}"
    for task in plan.tasks:
        for repeat, script in enumerate(task.scripts):
            for number, behaviour in enumerate(script, start=1):
                what = msgspec.structs.asdict(behaviour)
                described = ", ".join(f"{name} {value}" for name, value in what.items())
                yield f"  {(task.index, repeat)} attempt {number}: {described}"


def _describe_chapter(chapter: Chapter) -> Iterator[str]:
    yield ""
    yield f"life {chapter.number}: {chapter.life}"
    if chapter.refusal is not None:
        yield f"  another {chapter.refusal.intrusion} was refused: {chapter.refusal.message}"
    yield f"  {len(chapter.before)} records on disk, {len(chapter.current_before)} outcomes"
    for event in chapter.events:
        yield f"  {event.at:10.4f}  {_describe_event(event)}"
    yield f"  {chapter.ending} at {chapter.seconds:.4f} s: {chapter.coverage or chapter.error!r}"
    if chapter.fault is not None:
        yield f"  the disk had: {chapter.fault}"
    yield f"  {len(chapter.after)} records on disk, {len(chapter.current_after)} outcomes"


def _describe_event(event: Event) -> str:
    match event:
        case Written(record=record):
            return f"written       {record}"
        case Acknowledged(written=written):
            record = written.record
            return f"acknowledged  {record.key} attempt {record.attempt}"
        case _:
            fields = ", ".join(
                f"{name} {getattr(event, name)}" for name in event._fields if name != "at"
            )
            return f"{type(event).__name__.lower():12}  {fields}"
