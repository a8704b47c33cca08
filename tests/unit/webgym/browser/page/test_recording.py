"""How often a session is captured for its video."""

import asyncio
from typing import Any, cast

import pytest

from tests.simulation.loop import SimulatedLoop
from webgym.browser.page.recording import VideoRecorder


class _SlowTab:
    """Its captures take this many seconds, and fail."""

    is_over = False

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.captures = 0

    async def call(self, *_: object, deadline: float) -> None:
        self.captures += 1
        await asyncio.sleep(self.seconds)
        raise TimeoutError(deadline)


@pytest.mark.parametrize(("seconds", "captures"), [(0.01, 98), (1.0, 5)])
def test_a_video_uses_at_most_a_tenth_of_the_time_of_its_session(
    seconds: float, captures: int
) -> None:
    tab = _SlowTab(seconds)

    async def scenario() -> None:
        recorder = VideoRecorder(lambda: cast("Any", tab), 1280, 768)
        await asyncio.sleep(49.9)
        await recorder.close()

    SimulatedLoop().run(scenario())
    assert tab.captures == captures
