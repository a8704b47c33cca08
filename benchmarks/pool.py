"""A pool under a hard trainer: slow, killed again and again, with a new policy every few seconds.

The pool is the real command, the model another process, and the trainer a third one that knows
HTTP only. Every rollout makes two calls; 5 % of them fail for good and are refilled. At the end the
pool is stopped, started once more, and emptied. What the trainer wrote down is then compared with
the journal and with what the model itself said in its answers:

- *lost*: groups that were finished and neither delivered nor dropped for a reason; rollouts of a
  group that were other ones at another delivery; groups that were acknowledged and came again.
- *mislabelled turns*: a version that made a turn is not in the turn's label, or a version of the
  label is not among those of the group. A turn during a change may name a version too many.
- *slots busy*: the share of the time of all slots, without the time that back-pressure held.
- *waste*: the share of the calls of the model that are in no rollout for a trainer.

    python -m benchmarks.pool --minutes 20      # exits 1 when a goal is missed
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.contenders import AGENT, COMMANDS, CONFIGS, ROOT, write_rows
from benchmarks.figure import Figures
from benchmarks.pool_trainer import Trainer, ask
from tests.counterparts.processes import running_module
from tests.ports import free_port

SIZE = 8
ROWS = 200
FAILURES = 0.05
CALLS = 2
BUSY_GOAL = 0.95
WASTE_GOAL = 0.08
START_SECONDS = 60.0
DRAIN_SECONDS = 60.0
Json = dict[str, Any]


class Campaign:
    """The processes of one campaign, in a folder."""

    def __init__(self, folder: Path, model: str, given: argparse.Namespace) -> None:
        self.folder = folder
        self.model = model
        self.pool_url = f"http://127.0.0.1:{free_port()}"
        self.log = folder / "trainer.jsonl"
        self._given = given
        self._random = Random(given.seed)
        write_rows(folder / "rows.jsonl", ROWS)

    @contextmanager
    def pool(self) -> Iterator["subprocess.Popen[bytes]"]:
        """The command, until it has ended as after Ctrl-C."""
        given = self._given
        arguments: list[str | Path] = [
            *(COMMANDS / "rollgym", "serve-rollouts", "--agent", AGENT),
            *("--input", self.folder / "rows.jsonl", "--output", self.folder / "pool.jsonl"),
            *(f"--config={ROOT / config}" for config in CONFIGS),
            *("--model-url", f"{self.model}/v1", "--model", "bench"),
            *("--group-size", str(SIZE), "--refills", str(SIZE)),
            *("--concurrency", str(given.concurrency)),
            *("--max-undelivered", str(given.max_undelivered)),
            *("--max-staleness", str(given.max_staleness)),
            *("--port", self.pool_url.rpartition(":")[2]),
        ]
        with (self.folder / "pool.log").open("ab") as said:
            process = subprocess.Popen(arguments, cwd=ROOT, stdout=said, stderr=said)
            try:
                ask(f"{self.pool_url}/status")
                yield process
                process.send_signal(signal.SIGINT)
                process.wait(START_SECONDS * 2)
            finally:
                process.kill()
                process.wait()

    def kill_repeatedly(self, seconds: float) -> None:
        """Start trainers and kill them, for as long."""
        end = time.monotonic() + seconds
        deaths = 0
        while time.monotonic() < end:
            command = [sys.executable, "-m", "benchmarks.pool_trainer", self.pool_url, self.model]
            more = [str(self.log), str(self._given.seconds_per_version), str(deaths)]
            trainer = subprocess.Popen([*command, *more], cwd=ROOT)
            try:
                life = self._random.uniform(10.0, 40.0)
                trainer.wait(min(life, max(0.1, end - time.monotonic())))
                raise SystemExit("the trainer ended by itself: see its messages")
            except subprocess.TimeoutExpired:
                trainer.kill()
                trainer.wait()
                deaths += 1
            time.sleep(self._random.uniform(0.5, 3.0))
        print(json.dumps({"trainers killed": deaths}), flush=True)

    def drain(self, finished: set[int]) -> None:
        """Take every finished group that is neither acknowledged nor dropped."""
        settled = self.settled("acknowledged") | self.settled("dropped")
        with self.log.open("a") as log:
            trainer = Trainer(self.pool_url, self.model, log, 0.0, 0)
            trainer.take_all({f"g{number}" for number in finished - settled}, DRAIN_SECONDS)

    def completed(self) -> dict[int, set[int]]:
        """The rollouts with a reward, by group, as the journal has them."""
        completed: dict[int, set[int]] = {}
        for record in _lines(self.folder / "pool.run" / "journal.jsonl"):
            if record["outcome"]["status"] == "completed":
                completed.setdefault(record["task"], set()).add(record["repeat"])
        return completed

    def settled(self, event: str) -> set[int]:
        log = _lines(self.folder / "pool.run" / "deliveries.jsonl")
        return {entry["group"] for entry in log if entry["event"] == event}


def _lines(path: Path) -> Iterator[Json]:
    with path.open() as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


class Checked(NamedTuple):
    """Wrong deliveries; the labels of turns; and the groups that the trainer had."""

    wrong: int
    mislabelled: int
    exact: int
    turns: int
    had: set[int]


def _check(notes: Sequence[Json]) -> Checked:
    wrong = mislabelled = exact = turns = 0
    keys: dict[str, Any] = {}
    acknowledged: set[str] = set()
    for note in notes:
        acknowledged.update(note.get("acknowledged", ()))
        if (group := note.get("got")) is None:
            continue
        first = group["id"] not in keys
        wrong += group["id"] in acknowledged
        wrong += keys.setdefault(group["id"], group["keys"]) != group["keys"]
        if not first:
            continue
        named = set(group["versions"])
        for label, earliest, latest in group["turns"]:
            true = {str(version) for version in range(earliest, latest + 1)}
            turns += 1
            exact += true == set(label)
            mislabelled += not true <= set(label) <= named
    return Checked(wrong, mislabelled, exact, turns, {int(name[1:]) for name in keys})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--max-undelivered", type=int, default=64)
    parser.add_argument("--max-staleness", type=int, default=16)
    parser.add_argument("--seconds-per-version", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    figures = Figures()
    model_options = ("--seconds", "1.5", "--failures", str(FAILURES))
    with (
        TemporaryDirectory(prefix="rollgym-pool-") as folder,
        running_module("benchmarks.versioned_model", *model_options) as model,
    ):
        campaign = Campaign(Path(folder), model, given)
        with campaign.pool():
            campaign.kill_repeatedly(60 * given.minutes)
            status = ask(f"{campaign.pool_url}/status")
        _report(figures, campaign, status)
    figures.exit()


def _report(figures: Figures, campaign: Campaign, status: Json) -> None:
    completed, dropped = campaign.completed(), campaign.settled("dropped")
    finished = {number for number, repeats in completed.items() if len(repeats) == SIZE}
    useful = sum(len(repeats) for number, repeats in completed.items() if number not in dropped)
    wasted = 1 - CALLS * useful / ask(f"{campaign.model}/stats")["calls"]
    with campaign.pool():
        campaign.drain(finished)
    notes = list(_lines(campaign.log))
    checked = _check(notes)
    versions = sum("version" in note for note in notes)
    lost = len(finished - checked.had - campaign.settled("dropped"))
    print(json.dumps(status), flush=True)
    figures.report("groups finished", len(finished), "groups")
    figures.report("versions of the policy", versions, "versions")
    figures.report("turns checked", checked.turns, "turns")
    figures.report("lost groups", lost, "groups", 0)
    figures.report("wrong deliveries", checked.wrong, "groups", 0)
    figures.report("mislabelled turns", checked.mislabelled, "turns", 0)
    figures.report("turns with no version too many", checked.exact / checked.turns, "share")
    figures.report("slots busy", status["slots"]["busy"], "share", BUSY_GOAL, at_least=True)
    figures.report("slots held by back-pressure", status["slots"]["held"], "share")
    figures.report("wasted calls of the model", wasted, "share", WASTE_GOAL)
    figures.report("wasted time of attempts", status["wasted"], "share", WASTE_GOAL)


if __name__ == "__main__":
    main()
