import asyncio
import re
import socket
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
from yarl import URL

from tests.integration.webgym.miniwob.small_package import NAMES, make_package
from webgym.miniwob.application import serving
from webgym.miniwob.package import MiniWobError, Package
from webgym.miniwob.rows import state_url


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str
    url: URL

    def json(self) -> Any:
        return msgspec.json.decode(self.text)


Exchange = tuple[str, str] | tuple[str, str, object]


def exchange(folder: Path, *requests: Exchange) -> list[Answer]:
    """Make the requests one after the other, following redirects."""

    async def run() -> list[Answer]:
        answers = []
        package = make_package(folder)
        async with (
            serving(port=0, package=package) as base,
            aiohttp.ClientSession() as session,
        ):
            for method, path, *body in requests:
                content = body[0] if body else None
                data = content if isinstance(content, bytes) else msgspec.json.encode(content)
                url = URL(base + path, encoded=True)
                async with session.request(method, url, data=data if body else None) as response:
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    text = await response.text()
                    answers.append(Answer(response.status, headers, text, response.url))
        return answers

    return asyncio.run(run())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "miniwob"


STARTED = {"event": "started", "instruction": "Do it."}
PAGE = ("GET", "/task/click-button?seed=3&session=mine")
TRUTH = ("GET", "/_truth/mine")


def ended(raw_reward: float | None, **facts: object) -> tuple[str, str, object]:
    return ("POST", "/_report/mine", {"event": "ended", "raw_reward": raw_reward} | facts)


def test_the_page_of_an_episode_says_which_it_is_right_after_the_core(folder: Path) -> None:
    page, script, style, core = exchange(
        folder,
        PAGE,
        ("GET", "/_static/episode.js"),
        ("GET", "/_static/episode.css"),
        ("GET", "/core/core.js"),
    )
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-store"
    found = re.search(
        r'core\.js"></script>\s*<script src="/_static/episode\.js" (.*?)></script>', page.text
    )
    assert found
    assert found[1] == 'data-seed="3" data-session="mine" data-over="false"'
    assert "startEpisodeReal" in script.text
    assert "javascript" in script.headers["content-type"]
    assert "#reward-display" in style.text
    assert core.text == "var core = {};"


def test_a_page_without_a_session_redirects_to_a_new_session(folder: Path) -> None:
    first, second = exchange(folder, *[("GET", "/task/click-button?seed=4&mode=test")] * 2)
    sessions = {answer.url.query["session"] for answer in (first, second)}
    assert len(sessions) == 2
    assert first.url.query["seed"] == "4"
    assert first.url.query["mode"] == "test"
    assert f'data-session="{first.url.query["session"]}"' in first.text
    assert state_url(str(first.url)) == str(
        first.url.origin() / "_truth" / first.url.query["session"]
    )


def test_the_reports_of_a_page_are_the_state(folder: Path) -> None:
    report = ("POST", "/_report/mine", STARTED)
    _, before, _, begun, _, over = exchange(
        folder, PAGE, TRUTH, report, TRUTH, ended(1, reason="right"), TRUTH
    )
    expected = {"session": "mine", "task": "click-button", "seed": 3, "starts": 0, "reason": None}
    expected |= {"instruction": None, "done": False, "raw_reward": 0.0, "reward": 0}
    assert before.json() == expected
    expected |= {"instruction": "Do it.", "starts": 1}
    assert begun.json() == expected
    assert over.json() == expected | {
        "done": True, "raw_reward": 1.0, "reward": 1, "reason": "right"
    }  # fmt: skip


def test_a_task_is_solved_from_its_full_raw_reward_on(folder: Path) -> None:
    for task, raw_reward, reward in (
        ("click-button", 1, 1),
        ("click-button", 0.99, 0),
        ("click-button", None, 0),
        ("circle-center", 0.85, 1),
        ("circle-center", 0.75, 0),
    ):
        page = ("GET", f"/task/{task}?session=mine")
        *_, state = exchange(folder, page, ended(raw_reward), TRUTH)
        assert state.json()["reward"] == reward
        assert state.json()["raw_reward"] == (raw_reward or 0)


def test_the_first_end_counts(folder: Path) -> None:
    *_, again, truth = exchange(
        folder, PAGE, ended(-1), ended(1), ("POST", "/_report/mine", STARTED), PAGE, TRUTH
    )
    assert 'data-over="true"' in again.text
    assert (truth.json()["raw_reward"], truth.json()["reward"]) == (-1, 0)


def test_a_reset_session_starts_over(folder: Path) -> None:
    *_, gone, page, truth = exchange(
        folder, PAGE, ended(-1), ("POST", "/_reset/mine"), TRUTH, PAGE, TRUTH
    )
    assert gone.status == HTTPStatus.NOT_FOUND
    assert 'data-over="false"' in page.text
    assert not truth.json()["done"]


def test_a_session_has_one_task_and_one_seed(folder: Path) -> None:
    _, other_task, other_seed, same = exchange(
        folder,
        PAGE,
        ("GET", "/task/drag-cube?seed=3&session=mine"),
        ("GET", "/task/click-button?seed=4&session=mine"),
        PAGE,
    )
    for refused in (other_task, other_seed):
        assert refused.status == HTTPStatus.CONFLICT
        assert "belongs to the task click-button with seed 3" in refused.text
    assert same.status == HTTPStatus.OK


def test_an_enlarged_page_frames_the_page_itself(folder: Path) -> None:
    [page] = exchange(folder, ("GET", "/task/click-button?seed=3&session=mine&zoom=2.5"))
    assert 'src="/task/click-button?seed=3&amp;session=mine"' in page.text
    assert "scale(2.5)" in page.text
    assert "width: 400px; height: 525px" in page.text


REJECTED = (
    ("/task/click-buton", HTTPStatus.NOT_FOUND, "did you mean click-button?"),
    ("/task/..%2F..%2Fsecret", HTTPStatus.NOT_FOUND, "there is no task"),
    ("/task/click-button?seed=x", HTTPStatus.BAD_REQUEST, "the query is wrong"),
    ("/task/click-button?seed=-1", HTTPStatus.BAD_REQUEST, "the query is wrong"),
    ("/task/click-button?session=a/b", HTTPStatus.BAD_REQUEST, "letters and digits"),
    ("/task/click-button?session=", HTTPStatus.BAD_REQUEST, "letters and digits"),
    ("/task/click-button?zoom=0", HTTPStatus.BAD_REQUEST, "the query is wrong"),
    ("/task/click-button?any=1", HTTPStatus.BAD_REQUEST, "`any`"),
    ("/_truth/nobody", HTTPStatus.NOT_FOUND, "no such session"),
    ("/core/../secret.txt", HTTPStatus.NOT_FOUND, ""),
    ("/core/..%2F..%2Fsecret.txt", HTTPStatus.NOT_FOUND, ""),
    ("/_static/page.py", HTTPStatus.NOT_FOUND, ""),
)


def test_a_wrong_request_is_rejected(folder: Path) -> None:
    answers = exchange(folder, *(("GET", path) for path, _, _ in REJECTED))
    for (_, status, said), answer in zip(REJECTED, answers, strict=True):
        assert answer.status in (status, HTTPStatus.FORBIDDEN)
        assert said in answer.text
        assert "not to be served" not in answer.text


def test_a_wrong_report_is_rejected(folder: Path) -> None:
    wrong = (b"{", b"[]", b'{"event": "cheated"}', b'{"event": "started", "instruction": 5}')
    reports = [("POST", "/_report/mine", report) for report in wrong]
    unknown = ("POST", "/_report/unknown", STARTED)
    large = ("POST", "/_report/mine", b" " * 100_000)
    _, *rejected, missing, too_large, state = exchange(
        folder, PAGE, *reports, unknown, large, TRUTH
    )
    assert {answer.status for answer in rejected} == {HTTPStatus.BAD_REQUEST}
    assert missing.status == HTTPStatus.NOT_FOUND
    assert too_large.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert state.json()["instruction"] is None


def test_long_texts_of_a_page_are_cut(folder: Path) -> None:
    long = "x" * 10_000
    told = ("POST", "/_report/mine", {"event": "started", "instruction": long})
    *_, truth = exchange(folder, PAGE, told, ended(1, reason=[long]), TRUTH)
    assert len(truth.json()["instruction"]) == 4_000
    assert len(truth.json()["reason"]) == 500


def test_the_tasks_are_listed(folder: Path) -> None:
    page, listed = exchange(folder, ("GET", "/"), ("GET", "/tasks.json"))
    for name in NAMES:
        assert f'<a href="/task/{name}?seed=0">' in page.text
    tasks = {task["name"]: task for task in listed.json()}
    assert list(tasks) == list(NAMES)
    assert tasks["click-button"]["description"] == "Click on a button."
    assert tasks["drag-cube"]["obstacle"] == "drag"


def test_pages_ask_for_nothing_elsewhere(folder: Path) -> None:
    [page] = exchange(folder, PAGE)
    assert page.headers["content-security-policy"].startswith("default-src 'self'")


def test_a_page_that_loads_no_core_is_not_served(folder: Path) -> None:
    make_package(folder)
    (folder / "html/miniwob/click-button.html").write_text("<html></html>")

    async def run() -> tuple[int, str]:
        async with (
            serving(port=0, package=Package(folder)) as base,
            aiohttp.ClientSession() as session,
            session.get(f"{base}/task/click-button") as response,
        ):
            return response.status, await response.text()

    status, said = asyncio.run(run())
    assert status == HTTPStatus.BAD_REQUEST
    assert "does not load core.js" in said


def test_a_port_in_use_is_rejected_with_advice(folder: Path) -> None:
    async def run(port: int) -> None:
        async with serving(port=port, package=make_package(folder)):
            pass

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(MiniWobError, match="choose another with --port"):
            asyncio.run(run(taken.getsockname()[1]))
