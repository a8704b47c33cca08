"""What end-to-end tests share: one browser server for all of them that run in this process."""

from collections.abc import Iterator

import pytest

from tests.e2e.browsing import CAPACITY, Server, shared_server


@pytest.fixture(scope="session", name="browser")
def browser_server() -> Iterator[Server]:
    yield from shared_server("--capacity", str(CAPACITY))
