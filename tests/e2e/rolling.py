"""`scripts/rollout.py` as a program, the servers it works with, and what it leaves in its folder.

A `Stage` has the sites, a browser server and a policy in processes of their own, which can be
killed and started again at the same address. Where nothing is killed, one stage is for all tests of
a module. Tasks are the bundled ones, or a few short ones of a test's own (`number_task`), which
the policy knows by heart.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.command import Ended, finish, records, wait_until
from tests.ports import free_port
from webgym.browser.chromium.executable import NoBrowserError, find_browser
from webgym.rollout.iteration import IterationPaths, IterationReport, read_report
from webgym.tasks.task import Split
from webgym.trajectory.torch_file import TorchFile

SCRIPT = Path(__file__).parents[2] / "scripts" / "rollout.py"
PATIENCE = 60.0
KNOWN_NUMBERS = 24
HIDDEN = ("CPU_CLUSTER_TOKEN", "RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "FORCE_COLOR")
_READY = re.compile(r"(?:^| at )http://127\.0\.0\.1:(\d+)", re.MULTILINE)

Record = dict[str, Any]
Key = tuple[int, int]


class Service:
    """One of our servers, as a process that can be killed and started again where it was."""

    def __init__(self, log: Path, *command: str) -> None:
        """`command` is a module and its arguments, without the port. Returns when it is ready."""
        self._log = log
        self._command = command
        self.port = free_port()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, the next times at the address that it had."""
        environment = {**os.environ, "CPU_CLUSTER_TOKEN": "", "PYTHONUNBUFFERED": "1"}
        with self._log.open("ab") as log:
            said_before = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", *self._command, "--port", str(self.port)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def is_ready() -> bool:
            said = self._log.read_bytes()[said_before:].decode()
            assert self.process.poll() is None, said
            return _READY.search(said) is not None

        wait_until(is_ready)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Killed for the length of the block."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)


class Stage:
    """The servers that a rollout needs."""

    def __init__(self, sites: Service, browser: Service, policy: Service) -> None:
        self.sites = sites
        self.browser = browser
        self.policy = policy

    @property
    def options(self) -> list[str]:
        """What a rollout is told about them."""
        return [
            "model_config.model_type=baseline",
            "env_config.host_ip=127.0.0.1",
            f"env_config.master_port={self.browser.port}",
            f"env_config.sites_url={self.sites.url}",
            f"env_config.vllm_server_url={self.policy.url}",
        ]


@contextmanager
def stage(folder: Path, *, latency: float = 0.0) -> Iterator[Stage]:
    """Servers for the length of the block. The policy takes `latency` seconds for each reply."""
    try:
        find_browser()
    except NoBrowserError as error:
        pytest.skip(str(error))
    rows = (row for number in range(KNOWN_NUMBERS) for row in _solutions(number))
    solutions = write_lines(folder / "solutions.jsonl", rows)
    with ExitStack() as stack:

        def serve(name: str, *command: str) -> Service:
            service = Service(folder / f"{name}.log", *command)
            stack.callback(service.stop)
            return service

        yield Stage(
            serve("sites", "webgym.sites", "serve"),
            serve("browser", "webgym.browser", "serve", "--allow-network", "loopback"),
            serve(
                *("policy", "webgym.policies", "serve", "scripted"),
                *("--latency", f"fixed:{latency:g}", "--solutions", str(solutions)),
            ),
        )


def stage_of_module(*, latency: float = 0.0) -> Callable[[], Iterator[Stage]]:
    """A fixture: one stage for all tests of the module."""

    @pytest.fixture(scope="module", name="servers")
    def servers() -> Iterator[Stage]:
        with tempfile.TemporaryDirectory() as folder, stage(Path(folder), latency=latency) as found:
            yield found

    return servers


@contextmanager
def judge(folder: Path, behaviour: str, *first: str) -> Iterator[list[str]]:
    """A judge of this behaviour, with another one for its first replies; the options for it."""
    firsts = [word for each in first for word in ("--first", each)]
    module = "tests.integration.webgym.models.judge_server"
    server = Service(folder / "judge.log", module, "--behaviour", behaviour, *firsts)
    try:
        yield [
            "openai_config.model=judge",
            f"openai_config.base_url={server.url}/v1",
            "openai_config.openai_api_key_env_var=null",
            "openai_config.max_retries=0",
        ]
    finally:
        server.kill()


def number_task(number: int, *, slowly: bool = False, site: str = "{sites}") -> Record:
    """A task that asks for its number: in one step, or slowly in four. Its truth is the number."""
    name = f"{'Look around, then say' if slowly else 'Say'} the number {number}."
    fact = f"The answer is {number}."
    return {
        "task_id": f"number-{number}",
        "task_name": name,
        "website": f"{site}/encyclopedia/",
        "domain": "Numbers",
        "subdomain": "Small ones",
        "difficulty": 2,
        "evaluator_reference": [{"description": name, "facts": [fact]}],
        "definite_answer": str(number),
        "verifier": "sites",
        "truth": [{"check": "says_number", "fact": fact, "number": number}],
    }


def judged(task: Record) -> Record:
    """The same without a truth of its own."""
    return {key: value for key, value in task.items() if key not in ("verifier", "truth")}


def write_tasks(folder: Path, tasks: Iterable[Record]) -> list[str]:
    """The options for these tasks, in either split; all of them are drawn."""
    path = write_lines(folder / "tasks.jsonl", tasks)
    return [
        f"env_config.train_tasks={path}",
        f"env_config.test_tasks={path}",
        "env_config.train_tasks_rollout_size=-1",
    ]


def write_lines(path: Path, rows: Iterable[Record]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Rollout:
    """One `scripts/rollout.py` at work in `folder`."""

    def __init__(
        self,
        servers: Stage,
        folder: Path,
        *options: str,
        config: str = "rollout_train",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in HIDDEN}
        self.process = subprocess.Popen(
            [
                *(sys.executable, SCRIPT, "--config-name", config),
                *(f"save_path={folder}", *servers.options, *options),
            ],
            env=environment | dict(variables or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, holds: Callable[[], bool]) -> None:
        """While it runs, until this holds."""
        wait_until(lambda: self.process.poll() is not None or holds())
        assert self.process.poll() is None, finish(self.process).stderr

    def kill(self) -> None:
        self.process.kill()
        finish(self.process)

    def end(self) -> Ended:
        return finish(self.process)


def roll_out(
    servers: Stage,
    folder: Path,
    *options: str,
    status: int = 0,
    config: str = "rollout_train",
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """One rollout, to its end, which must have this exit status."""
    ended = Rollout(servers, folder, *options, config=config, variables=variables).end()
    assert ended.status == status, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


class Attempt(NamedTuple):
    """One record of a journal, in short. `failure` is its kind, if it failed."""

    key: Key
    attempt: int
    final: bool
    status: str
    failure: str | None


class Iteration:
    """What an iteration, or one rank of it, has left."""

    def __init__(
        self, folder: Path, split: Split = "train", number: int = 0, suffix: str = ""
    ) -> None:
        self.paths = IterationPaths(folder, split, number, suffix)

    @property
    def attempts(self) -> list[Attempt]:
        """Of the journal, as far as it is written."""
        return [_attempt(row) for row in records(self.paths.run)]

    @property
    def ends(self) -> list[Attempt]:
        """The attempts after which there are no more."""
        return [attempt for attempt in self.attempts if attempt.final]

    @property
    def failures(self) -> list[str]:
        """The kind of each attempt that failed."""
        return [attempt.failure for attempt in self.attempts if attempt.failure]

    @property
    def report(self) -> IterationReport:
        report = read_report(self.paths.metrics)
        assert report is not None
        return report

    @property
    def trajectories(self) -> list[Record]:
        with TorchFile(self.paths.trajectories) as file:
            assert file.metadata["final"] is self.report.final
            return list(file.trajectories())

    @property
    def sampled(self) -> list[str]:
        """The ids of its tasks."""
        _, *rows = map(json.loads, self.paths.sample.read_text().splitlines())
        return [row["row"]["task_id"] for row in rows]

    def has_ended(self, count: int) -> Callable[[], bool]:
        """Whether so many rollouts have."""
        return lambda: len(self.ends) >= count


def keys(trajectories: Iterable[Record]) -> list[Key]:
    return sorted((each["trajectory_index"], each["repeat"]) for each in trajectories)


def rewards(trajectories: Iterable[Record]) -> dict[str, float | None]:
    """By task."""
    return {each["task_id"]: each["reward"] for each in trajectories}


def check_pictures(folder: Path, trajectories: Sequence[Record]) -> None:
    """Every step has one, and its file is there, whole."""
    paths = {step["observation"]["image_path"] for each in trajectories for step in each["steps"]}
    assert paths
    for path in paths:
        picture = (folder / path).read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert picture.endswith(b"IEND\xaeB`\x82")


def _attempt(row: Record) -> Attempt:
    outcome = row["outcome"]
    failure = outcome["failure"]["kind"] if outcome["status"] == "failed" else None
    key = (row["task"], row["repeat"])
    return Attempt(key, row["attempt"], row["final"], outcome["status"], failure)


def _solutions(number: int) -> Iterator[Record]:
    """Of both forms of a number task."""
    answer = {"answer": f"It is {number}."}
    around = [{"scroll": direction} for direction in ("down", "up", "down")]
    yield {"task_name": number_task(number)["task_name"], "actions": [answer]}
    slowly = number_task(number, slowly=True)["task_name"]
    yield {"task_name": slowly, "actions": [*around, answer]}
