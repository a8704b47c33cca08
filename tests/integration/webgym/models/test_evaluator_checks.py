"""Tasks with their own check, with the servers that record the sessions."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web

from rollgym.records import VerifierError
from rollgym.servers.context import working_for
from tests.faulty_model import unused_port
from tests.integration.webgym.miniwob.small_package import make_package
from tests.integration.webgym.models.episodes import episode, task_of
from tests.integration.webgym.sites.visiting import Visitor, visitor
from webgym.miniwob.application import serving as serving_miniwob
from webgym.miniwob.package import Catalogue
from webgym.miniwob.rows import load_tasks as load_miniwob_tasks
from webgym.models.evaluator import Evaluator
from webgym.sites.application import serving as serving_sites
from webgym.sites.tasks.task import SPLITS, load_tasks
from webgym.trajectory.records import EpisodeVerdict, Trajectory

KETTLE = "sites-shop-01"
SAVED = "sites-shop-03"
WALL = "sites-captcha-01"
SESSION = "visit7"


def sites_row(base: str, task_id: str) -> dict[str, Any]:
    tasks = {task.task_id: task for split in SPLITS for task in load_tasks(split, base)}
    row: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(tasks[task_id]))
    return row


def on_the_sites(
    folder: Path,
    task_id: str,
    act: Callable[[Visitor], Awaitable[object]],
    answer: str | None,
    **fields: Any,
) -> EpisodeVerdict:
    """The verdict on an attempt that acted so and then answered."""

    async def run() -> EpisodeVerdict:
        async with (
            serving_sites("127.0.0.1", 0) as base,
            visitor(base) as browser,
            Evaluator(None, folder) as evaluator,
        ):
            row = sites_row(base, task_id)
            start = evaluator.start_url(task_of(row), SESSION)
            await browser.get(start.removeprefix(base))
            await act(browser)
            known = {"session": SESSION, "start_url": start, **fields}
            return await evaluator.evaluate(episode(folder, row=row, answer=answer, **known))

    return asyncio.run(run())


async def _nothing(_: Visitor) -> None:
    return None


async def _save(browser: Visitor) -> None:
    await browser.post("/shop/saved/toggle", {"product": "wool-picnic-blanket"})


def test_an_answer_is_checked_by_the_sites(tmp_path: Path) -> None:
    for answer, reward in [("It holds 2.0 litres.", 1.0), ("It holds 9 litres.", 0.0), (None, 0.0)]:
        verdict = on_the_sites(tmp_path, KETTLE, _nothing, answer)
        assert (verdict.reward, verdict.is_blocked) == (reward, False)
        assert verdict.evaluation["judge"] == "truth:sites"
        found: Any = verdict.evaluation["criteria"]
        assert found["truth"]["verdict"] == ("pass" if reward else "fail")
        assert found["truth"]["facts"]
        assert msgspec.json.decode(msgspec.json.encode(verdict.evaluation)) == verdict.evaluation


def test_a_task_of_the_sites_is_over_when_all_its_facts_hold(tmp_path: Path) -> None:
    """A task that needs an answer is not, and neither is one whose server does not respond."""

    async def run() -> None:
        async with (
            serving_sites("127.0.0.1", 0) as base,
            visitor(base) as browser,
            Evaluator(None, tmp_path) as evaluator,
        ):
            saved, kettle = (task_of(sites_row(base, task_id)) for task_id in (SAVED, KETTLE))
            start = evaluator.start_url(saved, SESSION)
            await browser.get(start.removeprefix(base))
            assert await evaluator.find_end(saved, SESSION, start) is None
            await _save(browser)
            assert await evaluator.find_end(saved, SESSION, start) == "every fact holds"
            assert await evaluator.find_end(kettle, SESSION, start) is None
            away = f"http://127.0.0.1:{unused_port()}/"
            assert await evaluator.find_end(saved, SESSION, away) is None
            with pytest.raises(VerifierError, match="does not know the session"):
                await evaluator.find_end(saved, "unknown", start)

    asyncio.run(run())


def test_a_wall_is_a_block_and_no_reward(tmp_path: Path) -> None:
    verdict = on_the_sites(tmp_path, WALL, _nothing, "Done.")
    assert (verdict.reward, verdict.is_blocked) == (0.0, True)
    assert verdict.evaluation["blocking"] == {
        "verdict": "blocked",
        "reason": "the visitor reached a wall",
    }


def test_a_session_that_the_sites_do_not_know_is_run_again(tmp_path: Path) -> None:
    with pytest.raises(VerifierError, match="does not know the session") as caught:
        on_the_sites(tmp_path, KETTLE, _nothing, "2.0 litres", session="unknown")
    assert caught.value.retryable is not False


def test_a_session_that_was_lost_is_run_again(tmp_path: Path) -> None:
    async def lose(browser: Visitor) -> None:
        async with (
            aiohttp.ClientSession(cookies={"sites_session": "lost1"}) as other,
            other.get(browser.base + "/shop/") as page,
        ):
            assert page.status == 200

    with pytest.raises(VerifierError, match="lost the state of session lost1") as caught:
        on_the_sites(tmp_path, SAVED, lose, "Done.", session="lost1")
    assert caught.value.retryable is not False


def test_a_trajectory_without_a_session_cannot_be_judged(tmp_path: Path) -> None:
    with pytest.raises(VerifierError, match="names no session") as caught:
        on_the_sites(tmp_path, KETTLE, _nothing, "2.0 litres", session="")
    assert caught.value.retryable is False


def test_a_row_that_is_not_a_task_of_the_sites_is_an_error(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            serving_sites("127.0.0.1", 0) as base,
            visitor(base) as browser,
            Evaluator(None, tmp_path) as evaluator,
        ):
            await browser.get(f"/shop/?session={SESSION}")
            row = {"task_id": "mine", "task_name": "x", "website": base, "verifier": "sites"}
            await evaluator.evaluate(episode(tmp_path, row=row, session=SESSION))

    with pytest.raises(VerifierError, match="task mine names the sites") as caught:
        asyncio.run(run())
    assert caught.value.retryable is False


def attempt(folder: Path, base: str) -> Trajectory:
    row = sites_row(base, KETTLE)
    return episode(folder, row=row, session=SESSION, start_url=f"{base}/shop/?session={SESSION}")


def test_a_server_that_is_away_is_asked_a_few_times_and_then_the_attempt_runs_again(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with Evaluator(None, tmp_path) as evaluator:
            loop = asyncio.get_running_loop()
            with working_for("1/0", loop.time() + 1.0):
                await evaluator.evaluate(attempt(tmp_path, f"http://127.0.0.1:{unused_port()}"))

    with pytest.raises(VerifierError, match="is the task's own server running") as caught:
        asyncio.run(run())
    assert caught.value.retryable is not False


@pytest.mark.parametrize(
    ("answers", "outcome"),
    [
        ([500, 503], "judged"),
        ([500] * 9, "HTTP 500"),
        (["hang"], "in time"),
        (["nonsense"], "cannot be used"),
        ([302], "answered 302"),
    ],
)
def test_a_response_of_a_failing_server_is_never_a_reward(
    tmp_path: Path, answers: list[int | str], outcome: str
) -> None:
    left = list(answers)

    async def tell(_: web.Request) -> web.Response:
        now = left.pop(0) if left else 200
        if now == "hang":
            await asyncio.Event().wait()
        if now == "nonsense":
            return web.Response(text="<h1>hello</h1>")
        if now != 200:
            return web.Response(status=int(now), headers={"location": "/elsewhere"})
        return web.json_response({"session": SESSION, "lost": False})

    async def run() -> float:
        application = web.Application()
        application.router.add_get(f"/_truth/{SESSION}", tell)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        try:
            async with Evaluator(None, tmp_path) as evaluator:
                loop = asyncio.get_running_loop()
                with working_for("1/0", loop.time() + (2.0 if "hang" in answers else 60.0)):
                    trajectory = attempt(tmp_path, f"http://{host}:{port}")
                    return (await evaluator.evaluate(trajectory)).reward
        finally:
            await runner.cleanup()

    if outcome == "judged":
        assert asyncio.run(run()) in (0.0, 1.0)
    else:
        with pytest.raises(VerifierError, match=outcome):
            asyncio.run(run())


@pytest.mark.parametrize(
    ("reports", "reward", "reason"),
    [
        ([], 0.0, "not finished"),
        ([{"event": "ended", "raw_reward": 1.0}], 1.0, "a reward of 1"),
        ([{"event": "ended", "raw_reward": -1.0, "reason": "wrong button"}], 0.0, "wrong button"),
    ],
)
def test_miniwob_says_itself_whether_its_task_was_done(
    tmp_path: Path, reports: list[dict[str, object]], reward: float, reason: str
) -> None:
    package = make_package(tmp_path / "package")

    async def run() -> EpisodeVerdict:
        async with (
            serving_miniwob("127.0.0.1", 0, package) as base,
            aiohttp.ClientSession() as browser,
            Evaluator(None, tmp_path) as evaluator,
        ):
            (task,) = load_miniwob_tasks(base, (3,), ["click-button"], catalogue=Catalogue(package))
            row = msgspec.json.decode(msgspec.json.encode(task))
            start = evaluator.start_url(task_of(row), SESSION)
            async with browser.get(start) as page:
                assert page.status == 200
            for report in reports:
                async with browser.post(f"{base}/_report/{SESSION}", json=report) as answer:
                    assert answer.status == 200
            trajectory = episode(tmp_path, row=row, session=SESSION, start_url=start)
            assert not await evaluator.check_blocked(trajectory)
            end = await evaluator.find_end(task_of(row), SESSION, start)
            assert end == ("its page has ended" if reports else None)
            return await evaluator.evaluate(trajectory)

    verdict = asyncio.run(run())
    assert verdict.reward == reward
    assert verdict.evaluation["judge"] == "truth:miniwob"
    assert reason in str(verdict.evaluation["criteria"])


def test_a_start_url_names_the_session_only_where_a_server_remembers_it(tmp_path: Path) -> None:
    evaluator = Evaluator(None, tmp_path)
    row = {"task_name": "x", "website": "http://h:1/shop/?q=a%20b"}
    assert evaluator.start_url(task_of(row), "abc") == row["website"]
    known = task_of({**row, "verifier": "sites"})
    assert evaluator.start_url(known, "abc") == "http://h:1/shop/?q=a+b&session=abc"
    with pytest.raises(VerifierError, match="1 to 64 letters and digits") as caught:
        evaluator.start_url(known, "a/b")
    assert caught.value.retryable is False
