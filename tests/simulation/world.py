"""Runs a plan: life after life on one directory, then its fork and the merging."""

import shutil
from pathlib import Path
from unittest.mock import patch

from rollgym.engine import admission
from rollgym.store import merge_runs, read_changes
from tests.simulation.command import intrude
from tests.simulation.counting import recount
from tests.simulation.disk import SimulatedDisk
from tests.simulation.plan import Life, Plan
from tests.simulation.process import Process
from tests.simulation.records import parse_journals, parse_record, read_bytes
from tests.simulation.storage import Storage
from tests.simulation.story import Chapter, Ending, Merging, Story

SKIPS_PER_TURN = 2
"""Small, so that small runs too take several turns to skip what they have already."""


class World:
    """A directory, the machine it is on, and the plan of what happens to it."""

    def __init__(
        self, plan: Plan, directory: Path, make_disk: type[SimulatedDisk] = SimulatedDisk
    ) -> None:
        """`make_disk` is for disks that break their word."""
        self._plan = plan
        self._make_disk = make_disk
        self._storage = Storage(directory / "run")
        self._fork = Storage(directory / "fork")
        self._merged = Storage(directory / "merged")

    def run(self) -> Story:
        """Everything the plan has, or up to the life that broke."""
        story = Story(self._plan)
        with patch.object(admission, "SKIPS_PER_TURN", SKIPS_PER_TURN):
            for number, life in enumerate(self._plan.lives):
                if number == self._plan.fork_before:
                    self._make_fork()
                story.chapters.append(self._live(self._storage, number, life))
                if story.last.ending is Ending.BROKEN:
                    return story
            if self._plan.fork_before is not None:
                story.fork = self._live(self._fork, len(self._plan.lives), Life())
            if self._plan.merged or story.fork:
                story.merging = self._merge()
        return story

    def _live(self, storage: Storage, number: int, life: Life) -> Chapter:
        directory = storage.directory
        chapter = Chapter(number=number, life=life, before=read_bytes(directory))
        # An empty run may be given any inputs.
        made = self._plan.tasks and (directory / "manifest.json").exists()
        if life.intrusion is not None and made:
            chapter.refusal = intrude(self._plan, directory, life.intrusion)
        Process(self._plan, storage, chapter, self._make_disk).live()
        chapter.after_bytes = read_bytes(directory)
        chapter.changes = [f"{each.time} {each}" for each in read_changes(directory)]
        return chapter

    def _make_fork(self) -> None:
        self._storage.directory.mkdir(exist_ok=True)
        shutil.copytree(self._storage.directory, self._fork.directory)

    def _merge(self) -> Merging:
        sources = [self._storage.directory]
        if self._plan.fork_before is not None:
            sources.append(self._fork.directory)
        target = self._merged.directory
        report = merge_runs(sources, target)
        again = target.with_name("merged-again")
        merge_runs(sources[::-1], again)
        superseded = target / "superseded.jsonl"
        others = superseded.read_bytes() if superseded.exists() else b""
        merged = read_bytes(target)
        return Merging(
            sources=[record for source in sources for record in parse_journals(read_bytes(source))],
            merged=parse_journals(merged),
            superseded=[parse_record("", line) for line in others.splitlines(keepends=True)],
            report=report,
            reordered=merged != read_bytes(again),
            run_summary=recount(self._storage.directory, self._plan.indexes()).summary(),
            merged_summary=recount(target, self._plan.indexes()).summary(),
            resumed=self._live(self._merged, len(self._plan.lives) + 1, Life()),
        )
