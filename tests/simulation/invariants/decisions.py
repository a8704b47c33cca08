"""Promise 5: same seed, same order of decisions."""

from collections.abc import Sequence

from tests.simulation.invariants.violation import require
from tests.simulation.records import Key
from tests.simulation.story import Chapter, Story

PROMISE = 5


def check_seeds(story: Story) -> None:
    """A rollout has one seed, in every attempt of every life, and no other has the same."""
    seeds: dict[Key, int] = {}
    for chapter in story.chapters:
        described = [(start.key, start.seed) for start in chapter.starts]
        described += [(written.record.key, written.record.seed) for written in chapter.written]
        for key, seed in described:
            require(
                seeds.setdefault(key, seed) == seed,
                PROMISE,
                f"life {chapter.number} gave {key} the seed {seed}, which had {seeds[key]}",
            )
    require(len(set(seeds.values())) == len(seeds), PROMISE, "two rollouts have the same seed")


def check_same_decisions(one: Story, other: Story) -> None:
    """The same plan, run twice, gives the same journals and starts the same workers."""
    for first, second in zip(one.chapters, other.chapters, strict=True):
        require(
            first.starts == second.starts,
            PROMISE,
            f"life {first.number}, run twice, started workers in another order or time: "
            f"{_first_difference(first.starts, second.starts)}",
        )
        require(
            first.after_bytes == second.after_bytes,
            PROMISE,
            f"life {first.number}, run twice, wrote another journal: "
            f"{_first_difference(_described(first), _described(second))}",
        )


def _described(chapter: Chapter) -> list[str]:
    return [f"at {written.at:g} s {written.record}" for written in chapter.written]


def _first_difference(one: Sequence[object], other: Sequence[object]) -> str:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return f"{left} and {right}"
    return f"{len(one)} and {len(other)} of them"
