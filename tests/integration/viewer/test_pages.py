import asyncio
import re
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from rollgym.viewer import ViewerError, application, serving
from rollgym.viewer.access import HEADERS
from rollgym.viewer.list_page import PAGE_SIZE
from tests.integration.viewer.rollouts import HOSTILE, Page, failure, rollout, write

LOOPBACK = "127.0.0.1"


class Answer(Page):
    """A page with the status and headers it came with."""

    def __init__(self, status: int, headers: Mapping[str, str], body: str) -> None:
        super().__init__(body)
        self.status = status
        self.headers = headers
        self.body = body


async def get(session: aiohttp.ClientSession, url: str, **headers: str) -> Answer:
    async with session.get(url, headers=headers) as response:
        return Answer(response.status, response.headers, await response.text())


def browse(path: Path, *urls: str, **headers: str) -> list[Answer]:
    """Open the pages one after the other."""

    async def browsing() -> list[Answer]:
        async with serving(path, LOOPBACK, 0) as root, aiohttp.ClientSession() as session:
            return [await get(session, root.rstrip("/") + url, **headers) for url in urls]

    return asyncio.run(browsing())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three tasks of two rollouts each: the first of them good, the second bad."""
    lines = [rollout(task, repeat, 1.0 - repeat) for task in range(3) for repeat in range(2)]
    return write(tmp_path / "x.jsonl", lines)


def test_the_list_has_an_overview_and_a_row_for_each_rollout(path: Path) -> None:
    [page] = browse(path, "/")
    assert page.status == HTTPStatus.OK
    assert re.search(r"rollouts\s+6\s+mean reward\s+0.5\s+success rate\s+50.0%", page.text)
    assert page.links("/rollouts/") == [f"/rollouts/{line}" for line in range(1, 7)]
    assert page.text.count("What is the weather?") == 6
    assert page.count("nav") == 1


def test_a_filter_holds_in_the_list_and_on_the_way_through_the_rollouts(path: Path) -> None:
    query = "?success=false"
    listed, shown = browse(path, f"/rollouts{query}&task=&min_reward=", f"/rollouts/4{query}")
    assert listed.links("/rollouts/") == [f"/rollouts/{line}{query}" for line in (2, 4, 6)]
    ways = [link for link in shown.links() if link.endswith(query)]
    assert ways[:3] == [f"/rollouts{query}", f"/rollouts/2{query}", f"/rollouts/6{query}"]


def test_a_long_list_has_pages(path: Path) -> None:
    write(path, [rollout(task) for task in range(2 * PAGE_SIZE + 1)])
    first, last, beyond = browse(path, "/rollouts", "/rollouts?page=3", "/rollouts?page=99")
    assert len(first.links("/rollouts/")) == PAGE_SIZE
    assert first.links("/rollouts?") == ["/rollouts?page=2", "/rollouts?page=3"]
    assert last.links("/rollouts/") == [f"/rollouts/{2 * PAGE_SIZE + 1}"]
    assert "Page 3 of 3" in last.text
    assert beyond.body == last.body


def test_a_rollout_shows_all_that_its_row_says(path: Path) -> None:
    write(
        path,
        [rollout(4, 1, 0.25, verified={"judge_said": "warm enough"}), rollout(4, 0), rollout(5)],
    )
    [page] = browse(path, "/rollouts/1")
    assert "Task 4, rollout 1" in page.text
    for pattern in (
        r"system\s+You forecast the weather.\s+user\s+What is the weather\?",
        r"Reasoning\s+I shall look it up.",
        r"calls\s+get_weather\s+city\s+Berlin\s+days\s+3\s+tool: get_weather\s+24 degrees",
        r"assistant\s+It is warm.",
        r"reward\s+0.25\s+outcome\s+no success",
        r"temperature\s+0.5",
        r"reasoning_steps\s+2",
        r"expected_city\s+Berlin\s+judge_said\s+warm enough",
        r"Raw JSON\s+The line as it is in the file",
    ):
        assert re.search(pattern, page.text), pattern
    repeats = [link for link in page.links("/rollouts/") if not link.endswith("json")]
    assert repeats == ["/rollouts/2", "/rollouts/1", "/rollouts/2"]  # next, then the repeats


def test_the_line_itself_can_be_had(path: Path) -> None:
    [line] = browse(path, "/rollouts/2.json")
    assert line.body.encode() == path.read_bytes().splitlines(keepends=True)[1]
    assert line.headers["Content-Type"] == "application/json"


def test_hostile_text_stays_text_on_every_page(path: Path) -> None:
    write(
        path,
        [
            rollout(question=HOSTILE, answer=HOSTILE, arguments=f'{{"<b>": "{HOSTILE[1:]}"}}'),
            rollout(arguments=HOSTILE, verified={HOSTILE: {HOSTILE: [HOSTILE]}}),
            b"<script>alert(1)</script>\n",
        ],
    )
    write(path.with_name("x_failures.jsonl"), [failure(detail=HOSTILE)])
    pages = browse(
        path, "/rollouts", "/rollouts/1", "/rollouts/2", "/rollouts/3", "/failures", "/failures/1"
    )
    for page in pages:
        assert page.status == HTTPStatus.OK
        assert "<script>alert(1)</script>" in page.text
        assert not page.count("script") + page.count("img") + page.count("b")
        assert not [name for _, given in page.elements for name in given if name.startswith("on")]
        assert HEADERS.items() <= dict(page.headers).items()


def test_a_line_that_cannot_be_read_is_named_and_the_others_are_shown(path: Path) -> None:
    write(path, [rollout(), b"{broken\n", b"\n", rollout(1), b'{"a": "\xff"}\n', rollout(2)[:9]])
    listed, shown = browse(path, "/rollouts", "/rollouts/2")
    assert listed.links("/rollouts/") == [f"/rollouts/{line}" for line in (1, 2, 4, 5)]
    assert "Line 2 cannot be read: JSON is malformed" in listed.text
    assert "Line 5 cannot be read: not UTF-8 text" in listed.text
    assert re.search(r"unreadable lines\s+1", listed.text)
    assert "Line 6 is not finished yet: it has 9 bytes" in listed.text
    assert re.search(r"Line 2 cannot be read.*\{broken", shown.text, re.DOTALL)


def test_rows_of_any_shape_have_a_page(path: Path) -> None:
    deep = [b'{"output": %s%s}\n' % (b"[" * depth, b"]" * depth) for depth in range(900, 1000)]
    rows = [b"{}\n", b'{"output": 5, "metadata": [1], "reward": 1e999}\n', *deep]
    write(path, rows)
    urls = [f"/rollouts/{line}" for line in range(1, len(rows) + 1)]
    assert {page.status for page in browse(path, "/rollouts", *urls)} == {HTTPStatus.OK}


def test_what_is_appended_is_there_when_the_page_is_loaded_again(path: Path) -> None:
    async def growing() -> None:
        async with serving(path, LOOPBACK, 0) as root, aiohttp.ClientSession() as session:
            assert len((await get(session, root)).links("/rollouts/")) == 6
            with path.open("ab") as file:
                file.write(rollout(3))
            assert len((await get(session, root)).links("/rollouts/")) == 7
            assert (await get(session, f"{root}failures")).status == HTTPStatus.NOT_FOUND
            write(path.with_name("x_failures.jsonl"), [failure()])
            assert "/failures" in (await get(session, root)).links()
            path.unlink()  # noqa: ASYNC240 - as anybody could
            gone = await get(session, root)
            assert gone.status == HTTPStatus.SERVICE_UNAVAILABLE
            assert "No such file" in gone.text

    asyncio.run(growing())


def test_a_failed_attempt_shows_what_broke(path: Path) -> None:
    write(path.with_name("x_failures.jsonl"), [failure(2, 1), failure(2, 1)])
    listed, shown = browse(path, "/failures", "/failures/1")
    assert "the tool broke" in listed.text
    assert listed.links("/failures/") == ["/failures/1", "/failures/2"]
    assert re.search(r"kind\s+tool\s+detail\s+the tool broke", shown.text)


def test_a_file_that_takes_long_is_shown_as_far_as_it_was_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "READING_SECONDS", 0.0)
    [page] = browse(path, "/rollouts")
    assert "still being read: 0% so far" in page.text
    assert ("meta", {"http-equiv": "refresh", "content": "1"}) in page.elements


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/rollouts/7", 404),
        ("/rollouts/0", 404),
        ("/rollouts/0.json", 404),
        ("/rollouts/x", 404),
        ("/failures", 404),
        ("/x.jsonl", 404),
        ("/rollouts/../x.jsonl", 404),
        ("/rollouts/%2e%2e%2fx.jsonl", 404),
        ("//x.jsonl", 404),
        ("/rollouts?page=x", 400),
        ("/rollouts?task=x", 400),
    ],
)
def test_a_url_that_leads_nowhere_gets_a_page_that_says_so(
    path: Path, url: str, status: int
) -> None:
    [page] = browse(path, url)
    assert page.status == status
    assert "weather" not in page.text
    assert HEADERS.items() <= dict(page.headers).items()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("evil.example:11001", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
def test_only_a_host_of_this_machine_is_answered(path: Path, host: str, status: int) -> None:
    [page] = browse(path, "/rollouts", Host=host)
    assert page.status == status
    assert ("weather" in page.text) is (status == HTTPStatus.OK)


def test_beyond_loopback_the_token_of_the_url_is_asked_for(path: Path) -> None:
    async def asking() -> None:
        async with serving(path, "0.0.0.0", 0) as printed:
            token = URL(printed).query["token"]
            root = f"http://127.0.0.1:{URL(printed).port}/rollouts"
            jar = aiohttp.CookieJar(unsafe=True)  # keeps cookies of addresses, as browsers do
            async with aiohttp.ClientSession(cookie_jar=jar) as session:
                for wrong in ("", "?token=", "?token=%C3%A4", f"?token={token[1:]}"):
                    assert (await get(session, root + wrong)).status == HTTPStatus.FORBIDDEN
                assert (await get(session, f"{root}?token={token}")).status == HTTPStatus.OK
                assert (await get(session, root)).status == HTTPStatus.OK
            async with aiohttp.ClientSession() as session:
                assert (await get(session, root)).status == HTTPStatus.FORBIDDEN

    asyncio.run(asking())


def test_a_loopback_url_has_no_token_and_a_second_viewer_another_port(path: Path) -> None:
    async def twice() -> None:
        async with serving(path, LOOPBACK, 0) as one, serving(path, LOOPBACK, 0) as other:
            assert one != other
            assert not URL(one).query
            with pytest.raises(ViewerError, match=r"cannot listen .* choose another with --port"):
                async with serving(path, LOOPBACK, URL(one).port or 0):
                    pass

    asyncio.run(twice())


@pytest.mark.parametrize(("name", "said"), [("y.jsonl", "did you mean 'x.jsonl'"), ("", "no file")])
def test_what_cannot_be_opened_is_refused_with_what_to_do(path: Path, name: str, said: str) -> None:
    with pytest.raises(ViewerError, match=said):
        browse(path.parent / name)
