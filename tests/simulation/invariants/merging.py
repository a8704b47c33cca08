"""Merging keeps everything, counts nothing twice, and does not mind the order of its sources."""

from collections import Counter

from tests.simulation.invariants.violation import require
from tests.simulation.records import current_records
from tests.simulation.story import Merging, Story

PROMISE = 1


def check_merging(story: Story) -> None:
    merging = story.merging
    if merging is None:
        return
    _keeps_every_record(merging)
    _completes_each_rollout_once(merging)
    _has_nothing_left_to_run(story, merging)
    if story.fork is None:
        require(
            merging.merged_summary == merging.run_summary,
            2,
            f"the run counts {merging.run_summary}, merged it counts {merging.merged_summary}",
        )


def _keeps_every_record(merging: Merging) -> None:
    kept = [record.line for record in (*merging.merged, *merging.superseded)]
    sources = {record.line for record in merging.sources}
    require(set(kept) == sources, PROMISE, "merging lost or invented records")
    require(len(kept) == len(sources), PROMISE, "merging kept a record twice")
    require(
        merging.report.records == len(merging.merged)
        and merging.report.conflicts == len(merging.superseded)
        and merging.report.duplicates == len(merging.sources) - len(sources),
        PROMISE,
        f"merging reports {merging.report}",
    )
    require(not merging.reordered, 5, "merging depends on the order of its sources")


def _completes_each_rollout_once(merging: Merging) -> None:
    completions = Counter(record.key for record in merging.merged if record.completed)
    twice = [key for key, count in completions.items() if count > 1]
    require(not twice, PROMISE, f"completed more than once after merging: {twice}")
    before = {key: record.status for key, record in current_records(merging.sources).items()}
    after = {key: record.status for key, record in current_records(merging.merged).items()}
    require(before == after, PROMISE, "merging changed an outcome")


def _has_nothing_left_to_run(story: Story, merging: Merging) -> None:
    resumed = merging.resumed
    require(not resumed.starts, PROMISE, f"the merged run ran again: {resumed.starts}")
    require(
        resumed.coverage is not None
        and resumed.coverage.unresolved == 0
        and resumed.coverage.expected == len(story.plan.keys()),
        2,
        f"the merged run says {resumed.coverage}",
    )
