"""Records of web rollouts, as a journal and as a `.pt` have them."""

from pathlib import Path
from typing import Any

import msgspec

from rollgym.records import (
    NOTHING,
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    Outcome,
    Row,
    encode_attempt,
)
from rollgym.viewer.formats.facts import task_facts
from rollgym.viewer.summary import TaskFacts
from tests.trajectories import full_trajectory
from webgym.trajectory.plain import failed_to_plain, to_plain
from webgym.trajectory.records import Trajectory
from webgym.trajectory.torch_archive import encode

LOST = Failure.make(FailureKind.BROWSER, "the browser 17 died")


class Shelf:
    """A `Context` that knows one input row, or none."""

    def __init__(self, images: Path | None = Path("experiment"), row: Row | None = None) -> None:
        self.images = images
        self._row = row

    def input_row(self, task: int) -> Row | None:
        return self._row

    def facts(self, task: int) -> TaskFacts | None:
        return None if self._row is None else task_facts(self._row.fields)


def nothing_known(task: int) -> TaskFacts | None:
    return None


def line(outcome: Outcome, **fields: Any) -> bytes:
    """A line of a journal, of rollout 3/1."""
    usual: dict[str, Any] = {
        "task": 3,
        "repeat": 1,
        "repeats": 2,
        "attempt": 2,
        "final": True,
        "seed": 5,
        "started": 1000.0,
        "seconds": 10.0,
    }
    return encode_attempt(Attempt(**(usual | fields), outcome=outcome)).rstrip(b"\n")


def completed(trajectory: Trajectory | None = None, **fields: Any) -> bytes:
    """The line of a trajectory with reward 1, unless `fields` of the outcome say otherwise."""
    done = trajectory if trajectory is not None else full_trajectory()
    usual: dict[str, Any] = {"reward": 1.0, "usage": done.usage}
    return line(Completed(**(usual | fields), result=_result(done)))


def failed(trajectory: Trajectory | None = None, **fields: Any) -> bytes:
    result = NOTHING if trajectory is None else _result(trajectory)
    return line(Failed(LOST, result=result), **fields)


def fragment(trajectory: Trajectory | None = None) -> bytes:
    """A record of a `.pt`."""
    return encode(to_plain(trajectory if trajectory is not None else full_trajectory(), 1.0))


def failed_fragment(trajectory: Trajectory) -> bytes:
    return encode(failed_to_plain(trajectory, LOST))


def _result(trajectory: Trajectory) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(trajectory))
