"""Real torch opens our files, and takes nothing in them for code.

Torch is in no environment of ours but the one that `scripts/torch_env.sh` makes. Without it they
are skipped.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trajectories import full_trajectory
from webgym.trajectory.plain import to_plain
from webgym.trajectory.plain_pickle import encode
from webgym.trajectory.torch_file import TorchDraft

LOADING = """
import json, sys, warnings
warnings.simplefilter("error")
import torch
json.dump(torch.load(sys.argv[1], weights_only=True), sys.stdout)
"""


def find_python() -> str | None:
    """A Python that has torch."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    made = cache / "rollgym" / "torch"
    return str(made / "bin" / "python") if (made / "setup.stamp").exists() else None


def loaded(path: Path) -> Any:
    python = find_python()
    if python is None:
        pytest.skip("torch is missing: run scripts/torch_env.sh")
    command = [python, "-I", "-c", LOADING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_torch_opens_a_file_with_weights_only(tmp_path: Path) -> None:
    trajectories = [to_plain(full_trajectory(trajectory_index=index)) for index in range(3)]
    extremes = {
        "numbers": [0, -1, 255, 256, 65536, -(2**31), 2**63, -(2**100), 1.5, -0.0, 1e300],
        "texts": ["", "é", "x" * 70_000, "\x00", "\U0001f600"],
        "containers": [[], {}, [[]], {"": {}}, list(range(3000)), {str(n): n for n in range(3000)}],
        "others": [None, True, False],
    }
    metadata = {"split": "train", "extremes": extremes}
    path = tmp_path / "train_trajectories.pt.iteration5_rank_0"
    with TorchDraft(path) as draft:
        for one in trajectories[:2]:
            draft.append(encode(one))
        draft.save(metadata, [encode(trajectories[2])])
    assert loaded(path) == {"trajectories": trajectories, "metadata": metadata}


def test_torch_opens_a_file_without_trajectories(tmp_path: Path) -> None:
    with TorchDraft(tmp_path / "empty.pt") as draft:
        draft.save({})
    assert loaded(tmp_path / "empty.pt") == {"trajectories": [], "metadata": {}}
