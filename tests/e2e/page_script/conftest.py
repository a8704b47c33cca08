"""One browser for all tests of the page script."""

from collections.abc import Iterator

import pytest

from tests.e2e.page_script.screen import CHROMIUM, Play, Scene, Theatre


@pytest.fixture(scope="session")
def theatre() -> Iterator[Theatre]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    theatre = Theatre()
    theatre.open()
    yield theatre
    theatre.close()


@pytest.fixture
def play(theatre: Theatre) -> Play:
    """Runs a test's scene on a fresh page."""

    def play(scene: Scene) -> None:
        theatre.run(theatre.play(scene))

    return play
