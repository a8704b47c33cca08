"""Files as ranks leave them, without the rollouts."""

from collections.abc import Sequence
from typing import Any

from webgym.rollout.iteration import (
    IterationCoverage,
    IterationPaths,
    IterationReport,
    write_report,
)
from webgym.trajectory.metrics import calculate_rollout_metrics
from webgym.trajectory.torch_archive import encode
from webgym.trajectory.torch_file import TorchDraft

PlainTrajectories = Sequence[dict[str, Any]]


def a_trajectory(index: int, *, reward: float = 1.0, steps: int = 2) -> dict[str, Any]:
    """Plain, with what counts for metrics."""
    step = {
        "action": {"key": "click"},
        "response": {"raw_response": f"click {index}"},
        "reward": {"reward": 0.0, "is_blocked": False},
    }
    last = step | {"action": {"key": "answer"}, "reward": {"reward": reward, "is_blocked": False}}
    return {
        "task_id": f"t{index}",
        "trajectory_index": index,
        "steps": [step] * (steps - 1) + [last],
    }


def a_report(
    paths: IterationPaths,
    trajectories: PlainTrajectories = (),
    *,
    failed: int = 0,
    omitted: int = 0,
    expected: int | None = None,
    final: bool = True,
) -> IterationReport:
    done = len(trajectories) + omitted
    expected = done if expected is None else expected
    return IterationReport(
        split=paths.split,
        iteration=paths.iteration,
        final=final,
        coverage=IterationCoverage(
            expected=expected,
            completed=len(trajectories) - failed,
            failed=failed,
            omitted=omitted,
            unresolved=expected - done,
        ),
        metrics=calculate_rollout_metrics(trajectories),
        seconds=1.0,
        trajectories=paths.trajectories.name,
    )


def leave_files(paths: IterationPaths, trajectories: PlainTrajectories, **report: Any) -> None:
    """What a rank leaves: its trajectories, then its metrics."""
    with TorchDraft(paths.trajectories) as draft:
        draft.save({}, map(encode, trajectories))
    write_report(paths.metrics, a_report(paths, trajectories, **report))
