"""`kill -9` while an iteration is collected and its files are written, and the same again."""

import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rollgym.store import StorageVanishedError, StoreError
from tests.integration.webgym.rollout.iteration import Iteration
from webgym.trajectory.metrics import calculate_rollout_metrics
from webgym.trajectory.torch_file import TorchFile

COUNT = 600
KILLS = 4


class Reader:
    """Opens the file again and again, as a trainer might at any moment."""

    def __init__(self, path: Path) -> None:
        self.sizes: list[int] = []
        self.promised: list[int] = []
        self.error: Exception | None = None
        self._path = path
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Reader":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _read(self) -> None:
        while not self._over.wait(0.01):
            try:
                with TorchFile(self._path) as file:
                    count = sum(1 for _ in file.fragments())
                    metadata = file.metadata
            except StorageVanishedError:
                continue  # there is none yet
            except StoreError as error:
                self.error = error
                return
            self.sizes.append(count)
            self.promised.append(int(str(metadata["completed"])) + int(str(metadata["failed"])))


@pytest.mark.campaign
@pytest.mark.timeout(120)
def test_a_killed_iteration_loses_nothing_and_its_file_is_always_whole(tmp_path: Path) -> None:
    chance = random.Random(5)
    iteration = Iteration(tmp_path, COUNT)
    command = [sys.executable, "-m", "tests.integration.webgym.rollout.iteration"]
    command += [str(tmp_path), str(COUNT)]
    with Reader(iteration.trajectories) as reader:
        for _ in range(KILLS):
            process = subprocess.Popen(command)
            time.sleep(chance.uniform(0.7, 1.5))
            process.kill()
            process.wait(10)
        subprocess.run(command, check=True, timeout=60)
    assert reader.error is None
    assert len(set(reader.sizes)) > 3, "it was seen while it grew"
    assert reader.sizes == reader.promised
    assert reader.sizes == sorted(reader.sizes), "nothing that was saved was lost"
    saved = iteration.saved()
    assert set(saved) == {(task, 0) for task in range(COUNT)}
    report = iteration.report()
    assert report.final
    assert report.metrics == calculate_rollout_metrics(saved.values())
    assert 0 < report.coverage.failed < COUNT / 4
    assert not list(tmp_path.glob(".*")), "no draft is left behind"
