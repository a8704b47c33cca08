"""Judging all stored episodes of an iteration again, into a file of its own.

Every trajectory of the journals is in the new file. Those that a judge decides on have a new
verdict; those that a rule or the task's own server decided keep theirs. The runs stay as they are.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rollgym.cli.process import say_beside
from rollgym.cli.summary import format_count
from rollgym.engine import ExitStatus
from rollgym.records import Attempt, Failed, Failure, Omitted, RolloutError, Row
from rollgym.records.decoding import JsonDecoder
from rollgym.store import journal_paths, read_records
from webgym.episode.judging import WHOLE_ENDINGS, counting_judge_calls, judge
from webgym.models.evaluator import Evaluator
from webgym.rollout.iteration import IterationPaths
from webgym.rollout.iteration_files import FORMAT_VERSION
from webgym.rollout.reporting import print_metrics
from webgym.tasks.task import WebTask
from webgym.trajectory.metrics import NO_METRICS, metrics_of
from webgym.trajectory.plain import PlainTrajectory, failed_to_plain, to_plain
from webgym.trajectory.records import Trajectory
from webgym.trajectory.torch_archive import encode
from webgym.trajectory.torch_file import TorchDraft

_TRAJECTORY = JsonDecoder(Trajectory)


async def rescore(
    paths: Sequence[IterationPaths],
    evaluator: Evaluator,
    output: Path,
    *,
    within: float,
    workers: int,
) -> ExitStatus:
    """Judge the stored episodes of these runs into `output`; the exit status. Raises StoreError."""
    metrics, problems = NO_METRICS, list[str]()
    stored = _stored_trajectories(paths)
    async with evaluator:
        with TorchDraft(output) as draft:

            async def work() -> None:
                nonlocal metrics
                for attempt, trajectory in stored:
                    plain = await _judged_again(evaluator, attempt, trajectory, within)
                    if plain["failure"] is not None:
                        problems.append(str(plain["failure"]["detail"]))
                    metrics += metrics_of(plain)
                    draft.append(encode(plain))

            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(work())
            metadata = {"format_version": FORMAT_VERSION, "split": paths[0].split}
            draft.save(metadata | {"iteration": paths[0].iteration, "rejudged": True})
    print_metrics(metrics)
    say_beside(f"trajectories: {output}")
    if problems:
        say_beside(f"{format_count(len(problems), 'episode')} without a verdict: {problems[0]}")
    return ExitStatus.FAILED if problems else ExitStatus.COMPLETE


def _stored_trajectories(paths: Sequence[IterationPaths]) -> Iterator[tuple[Attempt, Trajectory]]:
    """The trajectories of all rollouts; of omitted ones, those that only lack a verdict."""
    for each in paths:
        for entry, is_current in read_records(journal_paths(each.run)):
            attempt = entry.attempt
            if not (attempt.final and is_current and bytes(attempt.outcome.result)):
                continue
            trajectory = msgspec.structs.replace(
                _TRAJECTORY.decode(attempt.outcome.result),
                trajectory_index=attempt.task,
                repeat=attempt.repeat,
                attempt=attempt.attempt,
            )
            if not isinstance(attempt.outcome, Omitted) or _is_for_judge(trajectory):
                yield attempt, trajectory


def _is_for_judge(trajectory: Trajectory) -> bool:
    """Whether a judge decides on this episode, and not a rule or the task's own server."""
    task = WebTask.of(Row(bytes(trajectory.task)), trajectory.task_id)
    return trajectory.ending in WHOLE_ENDINGS and not task.is_checked_by_its_server


async def _judged_again(
    evaluator: Evaluator, attempt: Attempt, trajectory: Trajectory, within: float
) -> PlainTrajectory:
    """The plain form with a new verdict; unchanged where no judge decides."""
    if not _is_for_judge(trajectory):
        if isinstance(attempt.outcome, Failed):
            return failed_to_plain(trajectory, attempt.outcome.failure)
        return to_plain(trajectory)
    with counting_judge_calls() as calls:
        try:
            verdict = await judge(evaluator, trajectory, within, str(attempt.key))
        except RolloutError as error:
            return failed_to_plain(trajectory, Failure.of(error))
    spent = msgspec.structs.replace(trajectory, judge_usage=calls.usage)
    return to_plain(spent.judged(verdict), verdict.reward)
