from pathlib import Path

import pytest

from tests.integration.servers.config.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = Workspace(tmp_path)
    made.write_usual()
    return made
