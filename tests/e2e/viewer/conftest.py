"""One Chromium for all tests of the viewer's page; each test has a context of its own in it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.e2e.viewer.serving import chromium


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Closed with the package: while it is open, no test in this process can use asyncio.run."""
    with chromium() as started:
        yield started
