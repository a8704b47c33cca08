"""Exporting rollouts to a file for a trainer, one task at a time, with a card beside it.

The card (`<output>.card.json`) says where the examples come from, how they were chosen, how many
rollouts are missing and why, and what this did to the rewards. Nothing in it depends on the time or
on the folder, so the same export gives the same files.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rollgym.export.filter import GroupRewards, RewardFilter, Staleness, StalenessFilter
from rollgym.export.formats import FORMATS, ExportGroup, FormatOptions
from rollgym.export.images import ImageFolder
from rollgym.export.parquet import PARQUET, require_pyarrow, write_parquet
from rollgym.export.rollouts import open_source
from rollgym.export.source import (
    RewardNumbers,
    RolloutPosition,
    RolloutSource,
    SourceCard,
    reject_same_file,
)
from rollgym.metrics.distribution import Distribution
from rollgym.store import write_derived

CARD = ".card.json"


class ExportReport(msgspec.Struct, kw_only=True):
    """The counts of an export.

    All rollouts of `stale_tasks` are stale, or of an unknown version. The filter chose
    `chosen_tasks` of the others, and `used_tasks` gave examples. `tasks_with_equal_rewards` are
    those of the chosen ones. `dropped` are the rollouts that are in no example, by reason, and
    `replies_dropped` single steps of the others.
    """

    rollouts: int
    tasks: int = 0
    stale_tasks: int = 0
    chosen_tasks: int = 0
    tasks_with_equal_rewards: int = 0
    used_tasks: int = 0
    examples: int = 0
    dropped: Counter[str] = msgspec.field(default_factory=Counter)
    replies_dropped: Counter[str] = msgspec.field(default_factory=Counter)


class ExportCard(msgspec.Struct, frozen=True, kw_only=True):
    """What is in an export: its source, how the examples were chosen, and what was left out.

    `rewards_before` are those of all completed rollouts, `rewards_after` those of the rollouts that
    are in an example.
    """

    format: str
    options: FormatOptions
    filter: str | None
    staleness: Staleness | None
    source: SourceCard
    counts: ExportReport
    rewards_before: RewardNumbers
    rewards_after: RewardNumbers


def export(
    source: Path,
    target: Path,
    into: str,
    options: FormatOptions | None = None,
    only: RewardFilter | None = None,
    *,
    staleness: Staleness | None = None,
) -> ExportReport:
    """Write the examples of every task that the filter chooses, in the order of the tasks.

    Rollouts beyond the limit of `staleness` are left out first; groups, advantages and the filter
    are those of the others.

    `into` is a name of `FORMATS`. A target that ends in `.parquet` is a Parquet file, any other has
    a line of JSON for each example. An existing file is replaced when everything is written, and
    kept if anything goes wrong; so is the card. Memory is a few numbers for each rollout, and the
    conversations of one task. Raises ExportError with file and line, StorageError.
    """
    if target.suffix == PARQUET:
        require_pyarrow()
    with open_source(source) as rollouts:
        for read in rollouts.paths:
            reject_same_file(read, target)
        fresh = StalenessFilter(rollouts.version_order(), staleness) if staleness else None
        work = _Export(rollouts, into, options or FormatOptions(), only, fresh)
        if target.suffix == PARQUET:
            write_parquet(target, work.lines(None), rollouts)
        else:
            write_derived(target, work.lines(ImageFolder(rollouts, target)))
        card = msgspec.json.format(msgspec.json.encode(work.card()), indent=2) + b"\n"
        write_derived(target.with_name(f"{target.name}{CARD}"), [card])
    return work.report


class _Export:
    """One export: its examples, and the numbers that are known after the last one."""

    def __init__(
        self,
        source: RolloutSource,
        into: str,
        options: FormatOptions,
        only: RewardFilter | None,
        fresh: StalenessFilter | None,
    ) -> None:
        self.report = ExportReport(rollouts=len(source))
        self._source = source
        self._into = into
        self._options = options
        self._only = only
        self._fresh = fresh
        self._order = source.version_order()
        self._before, self._after = Distribution(), Distribution()

    def lines(self, images: ImageFolder | None) -> Iterator[bytes]:
        """The examples, with their images in this folder, if there is one."""
        report = self.report
        for everyone in self._source.groups():
            report.tasks += 1
            for member in everyone:
                self._before.add(member.reward)
            members = self._fresh_of(everyone)
            rewards = [member.reward for member in members]
            if not members:
                report.stale_tasks += 1
                continue
            if self._only is not None and not self._only.accepts(GroupRewards.of(rewards)):
                report.dropped["filtered out"] += len(members)
                continue
            report.chosen_tasks += 1
            group = ExportGroup(self._source, members, self._order)
            report.tasks_with_equal_rewards += group.has_equal_rewards
            before = report.examples
            for example in FORMATS[self._into](group, self._options):
                report.examples += 1
                stored = images.with_paths(example) if images else example
                yield msgspec.json.encode(stored) + b"\n"
            report.used_tasks += report.examples > before
            report.dropped.update(group.dropped.values())
            report.replies_dropped.update(group.replies_dropped)
            for member in members:
                if member not in group.dropped:
                    self._after.add(member.reward)

    def _fresh_of(self, members: list[RolloutPosition]) -> list[RolloutPosition]:
        """The rollouts of a task that are not stale. The others are counted."""
        if self._fresh is None:
            return members
        problems = [problem for each in members if (problem := self._fresh.problem(each))]
        self.report.dropped.update(problems)
        return self._fresh.fresh(members) if problems else members

    def card(self) -> ExportCard:
        return ExportCard(
            format=self._into,
            options=self._options,
            filter=None if self._only is None else self._only.text,
            staleness=None if self._fresh is None else self._fresh.limit,
            source=self._source.card(),
            counts=self.report,
            rewards_before=_numbers(self._before),
            rewards_after=_numbers(self._after),
        )


def _numbers(rewards: Distribution) -> RewardNumbers:
    return RewardNumbers(
        count=rewards.count,
        mean=rewards.mean,
        std=rewards.std,
        min=rewards.min,
        max=rewards.max,
    )
