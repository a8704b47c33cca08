"""An iteration in a folder, collected by a small worker, with its files. Also to be killed.

Run as a program it collects, slowly enough to be killed on the way.
"""

import asyncio
import random
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rollgym.engine import Coverage, Policy, WorkItem, collect, run
from rollgym.records import Completed, Failed, Failure, FailureKind, Outcome, Row, Task
from rollgym.store import Status, open_run
from tests.collecting import QUICK_SYNC, Work, policy
from tests.trajectories import step
from webgym.rollout.iteration import IterationLabels, IterationReport, read_report
from webgym.rollout.iteration_files import IterationFiles
from webgym.trajectory.records import Trajectory
from webgym.trajectory.torch_file import TorchFile, read_torch_file

LABELS = IterationLabels(split="train", iteration=5, rank=1, world_size=3)


def row(index: int) -> Row:
    return Row.of({"task_id": f"shop-{index}", "task_name": f"Task {index}", "website": "http://s"})


def result(item_task: int, steps: int = 2, reward: float | None = 1.0) -> msgspec.Raw:
    """The JSON of a trajectory that ended with an answer."""
    made = [*(step() for _ in range(steps - 1)), step("answer", reward=reward)] if steps else []
    trajectory = Trajectory(
        task_id=f"shop-{item_task}", task=msgspec.Raw(row(item_task).raw), steps=tuple(made)
    )
    return msgspec.Raw(msgspec.json.encode(trajectory))


def completed(task: int, reward: float = 1.0) -> Completed:
    return Completed(reward, result=result(task, reward=reward))


def failed(task: int | None = None) -> Failed:
    """With a partial trajectory if the task is given."""
    failure = Failure.make(FailureKind.TASK, "it broke")
    return Failed(failure) if task is None else Failed(failure, result=result(task, reward=None))


async def succeed(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
    return completed(item.task.index)


class Iteration:
    """A folder in which the same command is run again and again."""

    kind = IterationFiles

    def __init__(self, folder: Path, count: int = 8, repeats: int = 1) -> None:
        self.count, self.repeats = count, repeats
        self.trajectories = folder / "train_trajectories.pt.iteration5_rank_1"
        self.metrics = folder / "metrics.iteration5_rank_1.json"
        self.run = folder / "iteration5_rank_1.run"

    def tasks(self) -> Iterator[Task]:
        return (Task(index, row(index), self.repeats) for index in range(self.count))

    def files(self, **options: Any) -> IterationFiles:
        usual: dict[str, Any] = {
            "holds": lambda _: True,
            "expected": self.count * self.repeats,
            "labels": LABELS,
        }
        return self.kind(
            trajectories=self.trajectories,
            metrics=self.metrics,
            directory=self.run,
            **(usual | options),
        )

    def collect(
        self,
        worker: Work = succeed,
        *,
        reopen: Collection[Status] = (),
        rules: Policy | None = None,
        **options: Any,
    ) -> Coverage:
        async def main() -> Coverage:
            coverage = await collect(store.inputs, worker, store, rules or policy(), [files])
            files.finish(missed=files.name in coverage.dropped_events)
            return coverage

        with open_run(self.run, self.tasks(), sync=QUICK_SYNC, reopen=reopen) as store:
            inputs = store.inputs
            with self.files(holds=inputs.holds, expected=inputs.expected, **options) as files:
                files.rebuild()
                return run(main())

    def saved(self) -> dict[tuple[int, int], dict[str, Any]]:
        """What the file holds. Fails where a rollout is in it twice."""
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for plain in read_torch_file(self.trajectories):
            key = (int(str(plain["trajectory_index"])), int(str(plain["repeat"])))
            assert key not in found
            found[key] = plain
        return found

    def outcomes(self) -> dict[int, str]:
        """Of each task's first rollout."""
        return {task: plain["outcome"] for (task, _), plain in sorted(self.saved().items())}

    def metadata(self) -> dict[str, Any]:
        with TorchFile(self.trajectories) as file:
            return file.metadata

    def report(self) -> IterationReport:
        report = read_report(self.metrics)
        assert report is not None
        return report


async def take_a_while(item: WorkItem, attempt: int, deadline: float) -> Outcome:
    chance = random.Random(item.seed)
    await asyncio.sleep(chance.uniform(0.0, 0.05))
    if chance.random() < 0.1:
        return failed(item.task.index if chance.random() < 0.5 else None)
    return await succeed(item, attempt, deadline)


if __name__ == "__main__":
    Iteration(Path(sys.argv[1]), int(sys.argv[2])).collect(take_a_while, save_every_percent=2.0)
