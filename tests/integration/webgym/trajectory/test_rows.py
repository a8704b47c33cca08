"""A file of trajectories becomes a file of rollouts."""

from pathlib import Path

import pytest

from rollgym.viewer.index import RolloutIndex
from tests.trajectories import full_trajectory, step, trajectory
from webgym.trajectory.plain import to_plain
from webgym.trajectory.plain_pickle import encode
from webgym.trajectory.rows import convert
from webgym.trajectory.torch_file import TorchDraft, TorchFileError


def test_the_viewer_opens_what_a_file_was_converted_to(tmp_path: Path) -> None:
    missed = trajectory(step("answer", reward=0.0), trajectory_index=4)
    with TorchDraft(tmp_path / "a.pt") as draft:
        for one in (full_trajectory(), missed):
            draft.append(encode(to_plain(one)))
        draft.save({})
    assert convert(tmp_path / "a.pt", tmp_path / "a.jsonl") == 2
    index = RolloutIndex(tmp_path / "a.jsonl")
    assert index.extend(10.0)
    heads = [index.head(number) for number in (1, 2)]
    index.close()
    assert [(head.task, head.reward, head.success) for head in heads] == [
        (3, 1.0, True),
        (4, 0.0, False),
    ]


def test_a_file_with_something_else_in_it_is_not_converted(tmp_path: Path) -> None:
    with TorchDraft(tmp_path / "a.pt") as draft:
        draft.append(encode(to_plain(full_trajectory())))
        draft.append(encode({"steps": [{"observation": 7}]}))
        draft.save({})
    with pytest.raises(TorchFileError, match=r"a\.pt.*trajectory 1"):
        convert(tmp_path / "a.pt", tmp_path / "a.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pt"]
