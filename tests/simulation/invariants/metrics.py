"""The metrics of a run are the same however they are come by."""

from tests.simulation.invariants.violation import require
from tests.simulation.story import Story

PROMISE = 2


def check_metrics(story: Story) -> None:
    """Live on top of a replay, and recounted from disk."""
    for chapter in story.chapters:
        if chapter.coverage is not None:
            require(
                chapter.live_summary == chapter.recounted_summary,
                PROMISE,
                f"life {chapter.number} counted {chapter.live_summary}, and on disk there is "
                f"{chapter.recounted_summary}",
            )
