import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.webgym.browser.chromium.harness import run
from webgym.browser.chromium.executable import Browser, find_browser

__all__ = ["run"]


@pytest.fixture(scope="session")
def browser() -> Browser:
    return find_browser()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the folders of browsers lie during this test; sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="wg", ignore_cleanup_errors=True) as path:
        monkeypatch.setattr(tempfile, "tempdir", path)
        yield Path(path)
