"""torch.load opens our files with `weights_only`, which takes nothing in a file for code.

By default a restricted unpickler opens them, which allows less than torch does. `make test-torch`
makes an environment that has torch, and opens the same files with the real one.
"""

import io
import json
import os
import pickle
import pickletools
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.trajectories import full_trajectory
from webgym.trajectory.plain import to_plain
from webgym.trajectory.torch_archive import encode
from webgym.trajectory.torch_file import TorchDraft

LOADING = """
import json, sys, warnings
warnings.simplefilter("error")
import torch
json.dump(torch.load(sys.argv[1], weights_only=True), sys.stdout)
"""
# What `weights_only` reads for plain values: torch/_weights_only_unpickler.py has no other opcodes
# for them, and refuses a pickle of another protocol than 2.
OPCODES = {
    *("PROTO", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"),
    *("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE"),
    *("NONE", "NEWTRUE", "NEWFALSE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"),
}


class PlainUnpickler(pickle.Unpickler):
    """Allows no class and no function: none is needed for plain values."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is not allowed")

    def persistent_load(self, key: Any) -> Any:
        raise pickle.UnpicklingError("tensors are not allowed")


def open_as_torch_does(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        (root,) = {name.partition("/")[0] for name in archive.namelist()}
        assert archive.read(f"{root}/version") == b"3\n"
        assert archive.read(f"{root}/byteorder") == b"little"
        data = archive.read(f"{root}/data.pkl")
    assert data.startswith(b"\x80\x02")
    assert {opcode.name for opcode, _, _ in pickletools.genops(data)} <= OPCODES
    return PlainUnpickler(io.BytesIO(data)).load()


def open_with_torch(path: Path) -> Any:
    python = os.environ.get("ROLLGYM_TORCH_PYTHON")
    if not python:
        pytest.skip("ROLLGYM_TORCH_PYTHON does not name a Python with torch: run make test-torch")
    command = [python, "-I", "-c", LOADING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["restricted", pytest.param("torch", marks=pytest.mark.torch)])
def load(request: pytest.FixtureRequest) -> Callable[[Path], Any]:
    return open_with_torch if request.param == "torch" else open_as_torch_does


def test_a_file_with_every_kind_of_value_is_opened(
    load: Callable[[Path], Any], tmp_path: Path
) -> None:
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
    assert load(path) == {"trajectories": trajectories, "metadata": metadata}


def test_a_file_without_trajectories_is_opened(load: Callable[[Path], Any], tmp_path: Path) -> None:
    with TorchDraft(tmp_path / "empty.pt") as draft:
        draft.save({})
    assert load(tmp_path / "empty.pt") == {"trajectories": [], "metadata": {}}


def test_a_file_that_names_code_is_not_opened(load: Callable[[Path], Any], tmp_path: Path) -> None:
    """So a test that opens a file would fail if the file had anything but plain values."""
    with zipfile.ZipFile(tmp_path / "code.pt", "w") as archive:
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data.pkl", pickle.dumps({"trajectories": os.getcwd}, protocol=2))
    with pytest.raises((AssertionError, pickle.UnpicklingError)):
        load(tmp_path / "code.pt")
