from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.servers.launch.probe import ProbeRun, clean_imports


@pytest.fixture
def probes(tmp_path: Path) -> Iterator[ProbeRun]:
    with clean_imports():
        yield ProbeRun(tmp_path)
