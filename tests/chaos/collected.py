"""What a collection left, and what must be true of it whatever went wrong: the books balance."""

import json
import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

from rollgym.records import FailureKind
from tests.builders import read_json_lines
from tests.e2e.command import Ended

OUTPUT, FAILURES, RUN = "rollouts.jsonl", "rollouts_failures.jsonl", "rollouts.run"
STATUSES = {"unresolved": 5, "failed": 3, "omitted": 4}
"""The exit status by what there is, the worst first; 0 where there is none of them."""

Json = dict[str, Any]
Key = tuple[int, int]


def journal(folder: Path) -> list[Json]:
    """Every whole record."""
    path = folder / RUN / "journal.jsonl"
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


class Collected:
    """The end of a command and its files. Making one checks them all against each other.

    The rows have one repeat each, and their `number` is that of their task.
    """

    def __init__(self, folder: Path, ended: Ended, seconds: float, peak_memory: int) -> None:
        self.ended = ended
        self.seconds = seconds
        self.peak_memory = peak_memory
        said = ended.stdout + ended.stderr
        assert ended.status in {0, *STATUSES.values()}, said
        self._output = read_json_lines(folder / OUTPUT)
        self._failures = read_json_lines(folder / FAILURES)
        self._records = journal(folder)
        self._check_last_lines()
        self._check_journal()
        self._check_output()
        self._check_failures()

    @cached_property
    def coverage(self) -> dict[str, int]:
        """The line that adds up, as numbers."""
        return {
            name: int(number) for number, name in re.findall(r"(\d+) (\w+)", self.ended.coverage)
        }

    @cached_property
    def rows(self) -> dict[int, Json]:
        """The rollouts that completed."""
        return {row["number"]: row for row in self._output}

    @cached_property
    def failures(self) -> dict[int, list[Json]]:
        """The failed attempts of each rollout, in their order."""
        failures: dict[int, list[Json]] = {}
        for row in self._failures:
            failures.setdefault(row["_ng_task_index"], []).append(row)
        return failures

    @cached_property
    def kinds(self) -> dict[int, list[str]]:
        """What the attempts of each rollout failed of."""
        return {
            number: [row["failure"]["kind"] for row in rows]
            for number, rows in self.failures.items()
        }

    @property
    def all_kinds(self) -> set[str]:
        return {kind for kinds in self.kinds.values() for kind in kinds}

    def _check_last_lines(self) -> None:
        told = self.coverage
        ends = sum(number for name, number in told.items() if name != "expected")
        assert told["expected"] == ends, self.ended.coverage
        status = next((code for name, code in STATUSES.items() if told[name]), 0)
        assert self.ended.status == status, self.ended.stdout
        assert f"exit status {status}: " in self.ended.lines[-2]

    def _check_journal(self) -> None:
        """Each rollout has one outcome, unless it failed before and was run again."""
        ends: dict[Key, list[str]] = {}
        for record in self._records:
            if record["final"]:
                ends.setdefault(_key(record), []).append(record["outcome"]["status"])
        assert all(set(before) <= {"failed"} for *before, _ in ends.values())
        standing = Counter(statuses[-1] for statuses in ends.values())
        for status in ("completed", "failed", "omitted"):
            assert standing[status] == self.coverage[status]

    def _check_output(self) -> None:
        """No rollout is missing or doubled, and each has earned its reward in a conversation."""
        written = [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in self._output]
        completed = [_key(each) for each in self._records if "reward" in each["outcome"]]
        assert sorted(written) == sorted(completed)
        assert all(row["reward"] == 1.0 and row["response"]["output"] for row in self._output)

    def _check_failures(self) -> None:
        """The same attempts as in the journal, of a kind that was foreseen, and without reward."""
        failed = [each for each in self._records if each["outcome"]["status"] == "failed"]
        recorded = [
            (*_key(each), each["attempt"], each["final"], each["outcome"]["failure"]["kind"])
            for each in failed
        ]
        assert [_story(row) for row in self._failures] == recorded
        assert self.all_kinds <= set(FailureKind) - {FailureKind.INTERNAL}
        for one in (*self._failures, *(each["outcome"] for each in failed)):
            assert not {"reward", "success"} & one.keys()


def _key(record: Json) -> Key:
    return record["task"], record["repeat"]


def _story(row: Json) -> tuple[int, int, int, bool, str]:
    attempt = row["_ng_task_index"], row["_ng_rollout_index"], row["attempt"]
    return *attempt, row["final"], row["failure"]["kind"]
