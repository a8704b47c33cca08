"""The same web tasks collected in three ways, each in a process of its own that tells what it cost.

python -m benchmarks.web_contenders CASE    # CASE is the JSON of a Case
"""

import asyncio
import random
import resource
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit

import msgspec

from benchmarks.web_baselines import BaselineCollector
from rollgym.engine import run as run_loop
from rollgym.records import Completed, Outcome, Row, Task
from rollgym.store import journal_paths, read_records
from webgym.models.evaluator import Evaluator
from webgym.models.web_agent import WebAgent
from webgym.policies.server import Latency
from webgym.rollout.gym import AsyncWebGym
from webgym.tasks.file import BUNDLED, TaskFile
from webgym.tasks.task import WebTask
from webgym.trajectory.records import EpisodeVerdict, Trajectory

MODE: Literal["set_of_marks"] = "set_of_marks"
MOST_DIFFICULT = 5
JUDGE_REPLIES = 3
Way = Literal["asynchronous", "refill", "lockstep"]
WAYS: tuple[Way, ...] = get_args(Way)


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What to collect, with what, and where to. `judge` is the latency of a judge's reply."""

    way: Way
    episodes: int
    sessions: int
    seed: int
    judge: str
    folder: str
    sites_url: str
    browsers_url: str
    policy_url: str


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection cost this process, and what its episodes were.

    `cpu` and `wall` are seconds, from the first rollout's start to the last file. `model` and
    `browser` are the seconds of a step that an episode spent with either, on average. The bytes are
    those of the journal and of the pictures, of the asynchronous way.
    """

    cpu: float
    wall: float
    steps: int
    completed: int
    solved: int
    model: float
    browser: float
    journal_bytes: int
    picture_bytes: int


class SlowEvaluator(Evaluator):
    """The checks of the sites, with the time that a model takes as judge.

    The judge of `webgym.models.assessment` needs three replies one after another to find that a
    task is solved: about screenshots, about what they support, and about the facts.
    """

    def __init__(self, save_path: Path, latency: Latency, seed: int) -> None:
        super().__init__(None, save_path)
        self._latency = latency
        self._seed = seed

    async def evaluate(self, trajectory: Trajectory) -> EpisodeVerdict:
        verdict = await super().evaluate(trajectory)
        for reply in range(JUDGE_REPLIES):
            seconds = self._latency.seconds(self._seed, "judge", trajectory.trajectory_index, reply)
            await asyncio.sleep(seconds)
        return verdict


def drawn_tasks(count: int, seed: int) -> list[Task]:
    """This many tasks of the sites at random, in the order in which our sampler hands them out.

    None is drawn again before all were drawn, and none is harder than `MOST_DIFFICULT`.
    """
    rows = [
        row
        for name, path in BUNDLED.items()
        if name.startswith("sites/")
        for row in _rows(TaskFile(path))
        if WebTask.of(row, "").difficulty <= MOST_DIFFICULT
    ]
    draw = random.Random(seed)
    drawn = [row for _ in range(-(-count // len(rows))) for row in draw.sample(rows, len(rows))]
    tasks = [Task(index, row) for index, row in enumerate(drawn[:count])]
    return sorted(tasks, key=lambda task: WebTask.of(task.row, "").difficulty, reverse=True)


def _rows(file: TaskFile) -> Iterable[Row]:
    return file.rows(range(len(file)))


def collect(case: Case) -> Told:
    """Collect, and count."""
    tasks = drawn_tasks(case.episodes, case.seed)
    agent = WebAgent(
        policy_config={},
        context_config={"interaction_mode": MODE},
        model_config={"model_type": "qwen3-instruct"},
        save_path=Path(case.folder),
        vllm_server_url=case.policy_url,
    )
    if case.judge:
        latency = Latency.read(case.judge)
        agent.evaluator = SlowEvaluator(Path(case.folder), latency, case.seed)
    cpu, began = _cpu(), time.perf_counter()
    outcomes = _outcomes(case, tasks, agent)
    wall, cpu = time.perf_counter() - began, _cpu() - cpu
    completed = [outcome for outcome in outcomes if isinstance(outcome, Completed)]
    steps = round(sum(outcome.measures["steps"] for outcome in completed))
    phases = [outcome.phases for outcome in completed]
    folder = Path(case.folder)
    return Told(
        cpu=cpu,
        wall=wall,
        steps=steps,
        completed=len(completed),
        solved=sum(outcome.succeeded for outcome in completed),
        model=sum(phase["model"] for phase in phases) / steps,
        browser=sum(phase["navigate"] + phase.get("execute", 0.0) for phase in phases) / steps,
        journal_bytes=sum(path.stat().st_size for path in folder.rglob("journal*.jsonl")),
        picture_bytes=sum(path.stat().st_size for path in folder.rglob("*.png")),
    )


def _asynchronous(case: Case, tasks: Sequence[Task], agent: WebAgent) -> list[Outcome]:
    browsers = urlsplit(case.browsers_url)
    gym = AsyncWebGym(
        master_port=browsers.port or 0,
        host_ip=browsers.hostname or "",
        sampled_tasks=list(tasks),
        save_path=Path(case.folder),
        num_workers=case.sessions,
        verbose=False,
        completion_threshold=1.0,
        env_config={"sites_url": case.sites_url, "seed": case.seed},
        interaction_mode=MODE,
    )
    gym.run(agent)
    standing = read_records(journal_paths(gym.paths.run))
    return [entry.attempt.outcome for entry, _ in standing]


def _outcomes(case: Case, tasks: Sequence[Task], agent: WebAgent) -> list[Outcome]:
    if case.way == "asynchronous":
        return _asynchronous(case, tasks, agent)
    return run_loop(_by_baseline(case, tasks, agent))


async def _by_baseline(case: Case, tasks: Sequence[Task], agent: WebAgent) -> list[Outcome]:
    collector = BaselineCollector(
        agent,
        case.browsers_url,
        sites_url=case.sites_url,
        sessions=case.sessions,
        folder=Path(case.folder),
        seed=case.seed,
    )
    if case.way == "refill":
        return await collector.with_refill(tasks)
    return await collector.in_lockstep(tasks)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    case = msgspec.json.decode(sys.argv[1], type=Case)
    print(msgspec.json.encode(collect(case)).decode())


if __name__ == "__main__":
    main()
