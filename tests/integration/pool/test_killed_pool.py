"""The real command and a trainer of another make, both killed: nothing finished is lost."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders import read_json_lines
from tests.e2e.command import ROLLGYM, wait_until
from tests.integration.pool import http_trainer
from tests.integration.pool.http_trainer import ask
from tests.integration.rollouts.commands import AGENT, Workshop, task
from tests.ports import free_port

SIZE = 3


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    workshop = Workshop(tmp_path)
    steps: list[dict[str, Any]] = [{"sleep": 0.01, "answer": {"reward": 0.5}}]
    workshop.write("in.jsonl", [task(f"say {number}", script=steps) for number in range(7)])
    return workshop


class Processes:
    """The pool and its trainer, to be started and killed."""

    def __init__(self, workshop: Workshop, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.log = workshop.path("trainer.jsonl")
        self._workshop = workshop
        self._port = str(port)

    @contextmanager
    def pool(self, *options: str) -> Iterator["subprocess.Popen[bytes]"]:
        arguments: list[str | Path] = [
            *(ROLLGYM, "serve-rollouts", "--config", "parrots.yaml", "--agent", AGENT),
            *("--input", "in.jsonl", "--output", "out.jsonl", "--group-size", str(SIZE)),
            *("--concurrency", "4", "--max-undelivered", "3", "--port", self._port),
            *options,
        ]
        with self._workshop.path("pool.log").open("ab") as said:
            pool = subprocess.Popen(arguments, cwd=self._workshop.folder, stdout=said, stderr=said)
        try:
            yield pool
        finally:
            pool.kill()
            pool.wait()

    @contextmanager
    def trainer(self) -> Iterator["subprocess.Popen[bytes]"]:
        arguments = [sys.executable, http_trainer.__file__, self.url, str(self.log), "t"]
        trainer = subprocess.Popen(arguments)
        try:
            yield trainer
        finally:
            trainer.kill()
            trainer.wait()

    def notes(self) -> list[dict[str, Any]]:
        """What the trainer wrote; a last line may be incomplete."""
        if not self.log.exists():
            return []
        lines = self.log.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("}\n")]

    def counts(self) -> tuple[int, int] | None:
        """How many groups wait for a trainer and run; None where the pool does not answer."""
        try:
            groups = json.loads(_get(f"{self.url}/status"))["groups"]
        except OSError:
            return None
        return groups["undelivered"], groups["running"]

    def acknowledged(self) -> list[str]:
        return [name for note in self.notes() for name in note.get("acknowledged", ())]


def test_killing_the_pool_or_the_trainer_loses_nothing(workshop: Workshop) -> None:
    processes = Processes(workshop, free_port())
    with ExitStack() as stack:
        pool = stack.enter_context(processes.pool())
        trainer = stack.enter_context(processes.trainer())
        wait_until(lambda: len(processes.acknowledged()) >= 4)
        pool.kill()
        pool.wait()
        again = stack.enter_context(processes.pool())
        before = len(processes.acknowledged())
        wait_until(lambda: len(processes.acknowledged()) >= before + 4)
        trainer.kill()
        trainer.wait()
        stack.enter_context(processes.trainer())
        before = len(processes.acknowledged())
        wait_until(lambda: len(processes.acknowledged()) >= before + 4)
        status = json.loads(_get(f"{processes.url}/status"))
        again.send_signal(signal.SIGINT)
        assert again.wait(60) == 0
    assert status["groups"]["acknowledged"] >= 12
    _check(processes, workshop)


def _check(processes: Processes, workshop: Workshop) -> None:
    rows: dict[str, str] = {}
    deliveries: dict[str, list[int]] = {}
    settled: set[str] = set()
    for note in processes.notes():
        if "got" not in note:
            settled.update(note["acknowledged"])
            continue
        group = note["got"]
        assert group["id"] not in settled, "an acknowledged group was delivered again"
        assert group["complete"]
        assert len(group["rollouts"]) == SIZE
        # The same group every time, and numbered.
        found = json.dumps(group["rollouts"])
        assert rows.setdefault(group["id"], found) == found
        deliveries.setdefault(group["id"], []).append(group["delivery"])
    assert all(counts == sorted(set(counts)) for counts in deliveries.values())
    assert settled <= rows.keys()
    # Every rollout ran to its outcome once, and those of every group are those of one row.
    finals = read_json_lines(workshop.path("out.run/journal.jsonl"))
    keys = [(each["task"], each["repeat"]) for each in finals if each["final"]]
    assert len(keys) == len(set(keys))
    log = read_json_lines(workshop.path("out.run/deliveries.jsonl"))
    acknowledged = {f"g{each['group']}" for each in log if each["event"] == "acknowledged"}
    assert settled <= acknowledged
    # Every finished group was delivered, or is delivered by the next process.
    finished = {each for each in {key[0] for key in keys} if keys_of(keys, each) == SIZE}
    assert {int(name[1:]) for name in rows} <= finished
    output = workshop.rollouts("out.jsonl")
    assert sorted(output) == sorted(keys)


def keys_of(keys: list[tuple[int, int]], number: int) -> int:
    return sum(key[0] == number for key in keys)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        found: bytes = answer.read()
        return found


def test_the_last_of_many_groups_wait_for_their_trainer(workshop: Workshop) -> None:
    processes = Processes(workshop, free_port())
    for group in ("g0", "g1"):  # the second process has nothing to collect, but to deliver
        with processes.pool("--max-groups", "2") as pool:
            wait_until(lambda: processes.counts() == ({"g0": 2, "g1": 1}[group], 0))
            taken = ask(f"{processes.url}/groups/next", {"trainer": "a", "wait": 30})
            assert [each["id"] for each in taken["groups"]] == [group]
            ask(f"{processes.url}/groups/ack", {"trainer": "a", "ids": [group]})
            if group == "g1":
                assert pool.wait(60) == 0


def test_a_pool_whose_groups_are_all_collected_does_what_it_is_told(workshop: Workshop) -> None:
    processes = Processes(workshop, free_port())
    with processes.pool("--max-groups", "2") as pool:
        wait_until(lambda: processes.counts() == (2, 0))
        assert ask(f"{processes.url}/policy", {"version": "7"}) == {"policy_version": "7"}
        again = workshop.run("serve-rollouts", *given(), "--max-groups", "2")
        assert (again.status, "One process serves a pool" in again.stderr) == (6, True)
        assert "shard" not in again.stderr
        stopped = workshop.run("ctl", "out.run", "stop")
        assert (stopped.status, stopped.stdout[:9]) == (0, "Stopping:")
        assert pool.wait(60) == 0
    with processes.pool("--max-groups", "2"):
        wait_until(lambda: processes.counts() == (2, 0))
        assert json.loads(_get(f"{processes.url}/status"))["policy_version"] == "7"


def given() -> tuple[str, ...]:
    """The options that say what a pool is."""
    files = ("--input", "in.jsonl", "--output", "out.jsonl", "--config", "parrots.yaml")
    return (*files, "--agent", AGENT, "--group-size", str(SIZE))


def test_requests_commands_and_options_are_answered(workshop: Workshop) -> None:
    processes = Processes(workshop, free_port())
    with processes.pool():
        answer = ask(f"{processes.url}/groups/next", {"trainer": "a", "wait": 30})
        assert answer["groups"][0]["versions"] == ["0"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            ask(f"{processes.url}/policy", {"verion": "1"})
        with caught.value as refused:
            assert refused.code == 400
            assert "unknown field `verion`" in refused.read().decode()
        for version in (" ", "1,2"):
            with pytest.raises(urllib.error.HTTPError) as caught:
                ask(f"{processes.url}/policy", {"version": version})
            with caught.value as refused:
                assert refused.code == 400
                assert "1 to 200 printable characters without commas" in refused.read().decode()
        assert workshop.run("ctl", "out.run", "policy", "").status == 6
        assert ask(f"{processes.url}/policy", {"version": "1"}) == {"policy_version": "1"}
        assert workshop.run("ctl", "out.run", "policy", "2").status == 0
        assert json.loads(_get(f"{processes.url}/status"))["policy_version"] == "2"
    given = ("--input", "in.jsonl", "--output", "out.jsonl", "--config", "parrots.yaml")
    typo = workshop.run("serve-rollouts", *given, "--group-siz", "4")
    assert (typo.status, "did you mean --group-size?" in typo.stderr) == (2, True)
    wrong = workshop.run("serve-rollouts", *given, "--group-filter", "nowhere:keep")
    assert wrong.status == 2
    assert "--group-filter: it must name a module that can be imported (No module" in wrong.stderr
    beyond = workshop.run("serve-rollouts", *given, "--agent", AGENT, "--host", "0.0.0.0")
    assert beyond.status == 6
    assert "--host 0.0.0.0 needs a token: name it with --token-env" in beyond.stderr
