import asyncio
from pathlib import Path

import aiohttp
import pytest

from rollgym.viewer.http import handling
from tests.integration.viewer.browsing import browse, browsing
from tests.integration.viewer.rollouts import failure, rollout, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three tasks of two rollouts each: the first of them good, the second bad."""
    lines = [rollout(task, repeat, 1.0 - repeat) for task in range(3) for repeat in range(2)]
    write(tmp_path / "x_failures.jsonl", [failure(7)])
    return write(tmp_path / "x.jsonl", lines)


def test_all_that_stands_is_exported_as_it_is_in_the_files(path: Path) -> None:
    [answer] = browse(path, "/api/s/x/export.jsonl")
    assert answer.status == 200
    failures = path.with_name("x_failures.jsonl")
    assert answer.body == path.read_bytes() + failures.read_bytes()
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="x.export.jsonl"')
    assert answer.headers["Content-Type"] == "application/x-ndjson"


def test_only_what_the_filter_selects_is_exported(path: Path) -> None:
    good, none, failed = browse(
        path,
        "/api/s/x/export.jsonl?success=true",
        "/api/s/x/export.jsonl?min_reward=2",
        "/api/s/x/export.jsonl?status=failed",
    )
    lines = path.read_bytes().splitlines(keepends=True)
    assert good.body == b"".join(lines[::2])
    assert none.body == b""
    assert failed.body == path.with_name("x_failures.jsonl").read_bytes()


def test_the_name_of_the_file_tells_what_was_selected(path: Path) -> None:
    for query, name in [
        ("sort=reward&order=desc&offset=3&limit=5&kind=", "x.export.jsonl"),
        ("kind=timeout&kind=tool&sort=reward", "x.kind-timeout-tool.jsonl"),
        ("status=failed&min_reward=0.5", "x.status-failed.min_reward-0.5.jsonl"),
        ("q=../%2Fetc%22%0A%D1%84", "x.q-..-etc.jsonl"),
        (f"q={'a' * 500}", f"x.q-{'a' * 78}.jsonl"),
    ]:
        [answer] = browse(path, f"/api/s/x/export.jsonl?{query}")
        assert answer.headers["Content-Disposition"] == (
            f"attachment; filename=\"{name}\"; filename*=UTF-8''{name}"
        )


def test_a_text_that_is_searched_for_is_exported_once_all_was_searched(path: Path) -> None:
    write(path, [rollout(task, answer=f"number {task} done") for task in range(30)])
    [answer] = browse(path, "/api/s/x/export.jsonl?q=number+17")
    assert answer.body == path.read_bytes().splitlines(keepends=True)[17]


def test_many_rows_come_in_portions_and_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handling, "PORTION_BYTES", 5_000)
    monkeypatch.setattr(handling, "PORTION_PIECES", 7)
    write(path, [rollout(task) for task in range(300)])
    [answer] = browse(path, "/api/s/x/export.jsonl?status=completed")
    assert answer.body == path.read_bytes()


def test_lines_that_are_no_rows_are_left_out(path: Path) -> None:
    write(path, [rollout(), b"{broken\n", rollout(1)])
    [answer] = browse(path, "/api/s/x/export.jsonl?status=completed&status=unreadable")
    assert answer.body == rollout() + rollout(1)


def test_a_filter_that_cannot_be_used_is_rejected_before_anything_is_sent(path: Path) -> None:
    [answer] = browse(path, "/api/s/x/export.jsonl?success=perhaps")
    assert answer.status == 400
    assert "success" in answer.error


def test_a_file_that_goes_away_meanwhile_ends_the_download_before_its_time(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handling, "PORTION_PIECES", 1)
    write(path, [rollout(task, answer="x" * 200_000) for task in range(50)])

    async def removing() -> None:
        async with browsing(path) as browser:
            url = f"{browser.root}/api/s/x/export.jsonl"
            async with browser.session.get(url) as response:
                assert response.status == 200
                await response.content.read(1)
                path.unlink()  # noqa: ASYNC240 - as anybody could
                with pytest.raises(aiohttp.ClientError):
                    await response.read()

    asyncio.run(removing())
