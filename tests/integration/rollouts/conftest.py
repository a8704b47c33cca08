from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.rollouts.commands import Workshop, forget_plugins


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(tmp_path)
    yield workshop
    forget_plugins(workshop.folder)
