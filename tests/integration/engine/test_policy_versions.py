"""Policy versions of a collection that is told of them while it runs."""

import asyncio
from pathlib import Path

from rollgym.engine import Control, WorkItem
from rollgym.monitor import recount
from rollgym.records import Completed, Outcome
from rollgym.records.version import PolicyTurn
from rollgym.store import read_records
from tests.collecting import Collector


def test_turns_have_the_versions_that_were_current_while_they_ran(tmp_path: Path) -> None:
    collector, control = Collector(tmp_path / "run", 1), Control()

    async def worker(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        clock = asyncio.get_running_loop().time
        began, turns = clock(), []
        # It changes during the second turn. The engine counts from a moment before `began`: a third
        # turn that began less than this after the change might have had either version.
        for version, rest in (("7", 0.0), ("8", 1.0), ("8", 0.0)):
            start = clock() - began
            await asyncio.sleep(0.02)
            control.set_policy_version(version)
            await asyncio.sleep(rest)
            turns.append(PolicyTurn(start=start, seconds=clock() - began - start))
        turns.append(PolicyTurn(start=None))
        said = PolicyTurn(start=0.0, seconds=9.0, version="said")
        return Completed(1.0, turns=(*turns, said))

    control.set_policy_version("7")
    collector(worker, control=control)
    (entry,) = [entry for entry, _ in read_records([tmp_path / "run" / "journal.jsonl"])]
    versions = [turn.versions for turn in entry.attempt.outcome.turns]
    assert versions == [("7",), ("7", "8"), ("8",), ("",), ("said",)]
    known = recount(tmp_path / "run").summary().policy_versions
    assert known is not None
    assert {each.version: each.turns for each in known.versions} == {"7": 2, "8": 2, "said": 1}
    assert (known.unknown_turns, known.unknown_rollouts) == (1, 1)
