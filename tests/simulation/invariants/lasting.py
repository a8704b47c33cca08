"""Promise 1: nothing finished is lost, and nothing finished runs again.

What must last from now on: every record that was acknowledged, and, once a life has returned its
coverage, every record it counted.
"""

from collections import Counter

from tests.simulation.invariants.violation import require
from tests.simulation.log import Asked, Started, Written
from tests.simulation.reruns import Reruns
from tests.simulation.story import Chapter, Ending, Story

PROMISE = 1


def check_lasting(story: Story) -> None:
    lasting: dict[bytes, str] = {}
    changes: set[str] = set()
    for chapter in story.chapters:
        _keeps_changes(chapter, changes)
        _acknowledges_only_what_is_synced(chapter)
        _only_appends(chapter)
        _starts_only_what_has_no_outcome(chapter)
        lasting |= {
            event.written.record.line: f"acknowledged in life {chapter.number}"
            for event in chapter.acknowledged
        }
        _keeps(chapter, lasting)
        if chapter.coverage is not None:
            lasting |= {
                record.line: f"counted in the coverage of life {chapter.number}"
                for record in chapter.after
                if record.final
            }
    _ends_with_one_outcome_each(story)


def _acknowledges_only_what_is_synced(chapter: Chapter) -> None:
    for event in chapter.acknowledged:
        require(
            event.written.end <= event.synced,
            PROMISE,
            f"life {chapter.number} counted {event.written.record} when {event.synced} bytes of "
            f"the journal were synced, and the record ends at {event.written.end}",
        )


def _only_appends(chapter: Chapter) -> None:
    """Unless the machine died, what was a whole line stays where it was."""
    if chapter.ending is Ending.DIED and chapter.life.death and chapter.life.death.machine:
        return
    for name, before in chapter.before_bytes.items():
        whole = before[: before.rfind(b"\n") + 1]
        require(
            chapter.after_bytes.get(name, b"").startswith(whole),
            PROMISE,
            f"life {chapter.number} changed what was in {name}",
        )


def _keeps(chapter: Chapter, lasting: dict[bytes, str]) -> None:
    there = {record.line for record in chapter.after}
    for line, why in lasting.items():
        require(
            line in there,
            PROMISE,
            f"a record {why} is not on disk after life {chapter.number}: {line!r}",
        )


def _keeps_changes(chapter: Chapter, changes: set[str]) -> None:
    """What a life that returned had in its control log stays there."""
    require(
        changes <= set(chapter.changes),
        PROMISE,
        f"life {chapter.number} lost changes: {changes - set(chapter.changes)}",
    )
    if chapter.coverage is not None:
        changes.update(chapter.changes)


def _starts_only_what_has_no_outcome(chapter: Chapter) -> None:
    reruns = Reruns(chapter)
    for event in chapter.events:
        match event:
            case Asked(what=what):
                reruns.ask(what)
            case Written(record=record) if record.final:
                require(
                    reruns.begin(record.key),
                    PROMISE,
                    f"life {chapter.number} gave a second outcome: {record}",
                )
                reruns.outcomes[record.key] = record
            case Started(key=key, attempt=attempt):
                require(
                    reruns.begin(key),
                    PROMISE,
                    f"life {chapter.number} ran {key}, attempt {attempt}, which had its outcome",
                )


def _ends_with_one_outcome_each(story: Story) -> None:
    last = story.last
    expected = set(story.plan.keys())
    require(
        set(last.current_after) == expected,
        PROMISE,
        f"at the end without an outcome: {sorted(expected - set(last.current_after))}, "
        f"unknown: {sorted(set(last.current_after) - expected)}",
    )
    completions = Counter(record.key for record in last.after if record.completed)
    twice = [key for key, count in completions.items() if count > 1]
    require(not twice, PROMISE, f"completed more than once: {twice}")
