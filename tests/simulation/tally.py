"""What a campaign exercised, so that its reader sees that it does what it claims."""

from collections import Counter

from tests.simulation.log import Asked, Cancelled, Started
from tests.simulation.story import Chapter, Ending, Story

Tally = Counter[tuple[str, str]]
"""How often each thing happened, under its heading."""


def tally(story: Story) -> Tally:
    counts: Tally = Counter()
    for chapter in story.chapters:
        _tally_chapter(story, chapter, counts)
    counts["simulations", "in all"] += 1
    counts["simulations", "run twice and compared"] += story.plan.repeated
    counts["simulations", "forked and merged"] += story.fork is not None
    counts["simulations", "merged alone"] += story.plan.merged
    if story.merging is not None:
        counts["simulations", "second completions put aside"] += len(story.merging.superseded)
    return counts


def _tally_chapter(story: Story, chapter: Chapter, counts: Tally) -> None:
    life = chapter.life
    counts["lives", "in all"] += 1
    counts["lives", f"that {chapter.ending}"] += 1
    counts["lives", "of a shard"] += life.shard.count > 1
    counts["lives", "that resumed outcomes"] += bool(chapter.current_before)
    counts["lives", "that reopened outcomes"] += any(map(chapter.reopened, chapter.current_before))
    counts["lives", "with a budget for refills"] += life.refills > 0
    counts["lives", "that were changed"] += bool(life.changes)
    counts["lives", "that cut off a torn record"] += chapter.torn
    counts["lives", "refused for another identity"] += chapter.refusal is not None
    stopped = chapter.coverage is not None and chapter.coverage.stopped is not None
    counts["lives", "that stopped after equal failures"] += stopped
    if chapter.ending is Ending.DIED and life.death is not None:
        counts["deaths", "of the machine" if life.death.machine else "of the process"] += 1
    if chapter.fault is not None:
        counts["disk faults", chapter.fault] += 1
    counts["records", "written"] += len(chapter.written)
    counts["records", "acknowledged"] += len(chapter.acknowledged)
    for written in chapter.written:
        counts["records", written.record.status] += 1
    for event in chapter.events:
        match event:
            case Asked(what=what):
                counts["requests", what] += 1
            case Started(key=key, attempt=attempt):
                behaviour = story.plan.behaviour(*key, attempt)
                act = "hangs" if behaviour.after is None else str(behaviour.act)
                counts["attempts", act] += 1
            case Cancelled(key=key, attempt=attempt):
                counts["cancelled attempts", _reaction(story, key, attempt)] += 1


def _reaction(story: Story, key: tuple[int, int], attempt: int) -> str:
    behaviour = story.plan.behaviour(*key, attempt)
    if behaviour.linger is None:
        return "never end"
    return f"{behaviour.reaction}{' late' if behaviour.linger else ''}"


def render(counts: Tally) -> str:
    """One line for each heading."""
    headings: dict[str, list[str]] = {}
    for (heading, what), count in sorted(counts.items()):
        if count:
            headings.setdefault(heading, []).append(f"{count:,} {what}")
    return "\n".join(f"{heading}: {'; '.join(parts)}" for heading, parts in headings.items())
