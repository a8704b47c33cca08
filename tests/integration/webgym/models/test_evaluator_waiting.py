"""The evaluator for those who wait: in programs, notebooks, and beside running event loops."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rollgym.records import VerifierError
from tests.integration.webgym.models.episodes import episode
from tests.integration.webgym.models.judge_server import Behaviour, JudgeServer
from webgym.models.evaluator import Evaluator
from webgym.trajectory.plain import TrajectoryError, to_plain


@contextmanager
def judging(behaviour: Behaviour = Behaviour.PASS) -> Iterator[JudgeServer]:
    """A judge beside a test that has no event loop."""
    judge, ready = JudgeServer(behaviour), threading.Event()
    stops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        stops.append((asyncio.get_running_loop(), stop))
        async with judge:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield judge
    finally:
        for loop, stop in stops:
            loop.call_soon_threadsafe(stop.set)
        thread.join(60)


def evaluator_of(judge: JudgeServer, folder: Path, timeout: float = 60) -> Evaluator:
    config = {"model": "judge", "base_url": judge.base_url, "max_retries": 0}
    return Evaluator(config, folder, timeout=timeout)


def test_a_reward_comes_with_its_evaluation_and_whether_it_was_blocked(tmp_path: Path) -> None:
    with judging() as judge, evaluator_of(judge, tmp_path) as evaluator:
        reward, evaluation, is_blocked = evaluator.get_verifiable_reward(episode(tmp_path))
        assert (reward, evaluation["judge"], is_blocked) == (1.0, "model:judge", False)
        assert evaluator.check_if_blocked(episode(tmp_path)) is False


def test_a_trajectory_of_a_pt_file_is_taken_as_well(tmp_path: Path) -> None:
    with judging(Behaviour.BLOCKED) as judge, evaluator_of(judge, tmp_path) as evaluator:
        plain = to_plain(episode(tmp_path))
        assert evaluator.get_verifiable_reward(plain)[::2] == (0.0, True)
        assert evaluator.check_if_blocked(plain) is True
        with pytest.raises(TrajectoryError, match="not a trajectory"):
            evaluator.get_verifiable_reward({"steps": []})


def test_it_works_where_an_event_loop_is_running(tmp_path: Path) -> None:
    with judging() as judge, evaluator_of(judge, tmp_path) as evaluator:

        async def in_a_notebook() -> float:
            both = evaluator.get_verifiable_reward(episode(tmp_path))[0]
            both += (await evaluator.evaluate(episode(tmp_path))).reward
            await evaluator.close()
            return both

        assert asyncio.run(in_a_notebook()) == 2.0
        assert evaluator.get_verifiable_reward(episode(tmp_path))[0] == 1.0


def test_waiting_ends_with_the_timeout(tmp_path: Path) -> None:
    with judging(Behaviour.HANG) as judge, evaluator_of(judge, tmp_path, 0.4) as evaluator:
        began = time.monotonic()
        with pytest.raises(VerifierError):
            evaluator.get_verifiable_reward(episode(tmp_path))
        assert time.monotonic() - began < 30


def test_closing_twice_or_before_any_call_does_nothing(tmp_path: Path) -> None:
    evaluator = Evaluator(None, tmp_path)
    for _ in range(2):
        with evaluator:
            pass
        asyncio.run(evaluator.close())
