import asyncio
import base64
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from rollgym.viewer import library as library_module
from rollgym.viewer import open_source as open_source_module
from rollgym.viewer import server
from rollgym.viewer.formats.rows import RolloutsFormat
from rollgym.viewer.http import files
from rollgym.viewer.http import rollouts as rollouts_module
from rollgym.viewer.open_source import OpenSource
from rollgym.viewer.openers import open_sources
from rollgym.viewer.server import serving
from rollgym.viewer.source import DocumentContext, EntryId
from rollgym.viewer.view import RolloutDocument
from tests.builders import make_run
from tests.integration.viewer.browsing import (
    LOOPBACK,
    Answer,
    Browser,
    browse,
    browsing,
    until,
)
from tests.integration.viewer.rollouts import HOSTILE, failure, rollout, write

PNG = b"\x89PNG\r\n\x1a\n" + bytes(32)
HAR = b'{"log":{"entries":[]}}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three tasks of two rollouts each: the first of them good, the second bad. One failed."""
    lines = [
        rollout(task, repeat, 1.0 - repeat, answer=f"Answer {repeat} of {task}.")
        for task in range(3)
        for repeat in range(2)
    ]
    write(tmp_path / "x_failures.jsonl", [failure(3), failure(4, detail="another thing")])
    return write(tmp_path / "x.jsonl", lines)


def ask(path: Path, url: str) -> Any:
    """The JSON of an answer below the source."""
    [answer] = browse(path, f"/api/s/x/{url}")
    assert answer.status == 200, answer.text
    assert answer.headers["Content-Type"] == "application/json"
    return answer.json


def ids(listed: Any) -> list[str]:
    return [entry["id"] for entry in listed["entries"]]


def test_the_sources_say_what_is_in_them(path: Path) -> None:
    make_run(path.with_name("x.run"), 5, 2).close()
    [answer] = browse(path, "/api/sources")
    [source] = answer.json["sources"]
    state = source.pop("state")
    assert source.pop("started") <= source.pop("latest")
    assert [source.pop(name) for name in ("rate", "left_seconds")] == [None, None]
    assert source == {
        "id": "x",
        "title": "x.jsonl",
        "kind": "rollouts",
        "path": str(path),
        "live": True,
        "coverage": {
            "expected": 10,
            "completed": 6,
            "failed": 2,
            "omitted": 0,
            "unresolved": 2,
            "unreadable": 0,
            "retried": 0,
            "inputs": 0,
        },
        "mean_reward": 0.5,
        "success_rate": 0.5,
    }
    assert state["ready"]
    assert (state["entries"], state["problem"]) == (8, "")
    assert state["read"] == state["size"]


def test_the_overview_follows_the_filter(path: Path) -> None:
    whole, good = browse(path, "/api/s/x/overview", "/api/s/x/overview?success=true")
    assert (whole.json["rollouts"], whole.json["mean_reward"]) == (8, 0.5)
    assert (good.json["rollouts"], good.json["mean_reward"]) == (3, 1.0)
    assert whole.json["coverage"] == good.json["coverage"]
    assert whole.json["search"] is None


def test_the_list_is_filtered_sorted_and_paged(path: Path) -> None:
    everything = ask(path, "rollouts")
    assert everything["total"] == 8
    assert ids(everything) == [f"0-{line}" for line in range(1, 7)] + ["1-1", "1-2"]
    page = ask(path, "rollouts?status=completed&sort=reward&order=desc&offset=1&limit=3")
    assert (page["total"], ids(page)) == (6, ["0-3", "0-5", "0-2"])
    assert ids(ask(path, "rollouts?task=1&task=2&success=false")) == ["0-4", "0-6"]


def test_a_search_is_answered_with_what_was_found_so_far(path: Path) -> None:
    async def searching() -> None:
        async with browsing(path) as browser:

            async def found() -> Any:
                return (await browser.get("/api/s/x/rollouts?q=answer+1+OF+2")).json

            listed = await until(found, lambda each: each["search"]["done"])
            assert ids(listed) == ["0-6"]
            assert listed["search"]["matches"] == 1
            counted = (await browser.get("/api/s/x/overview?q=answer+1+OF+2")).json
            assert (counted["rollouts"], counted["search"]["done"]) == (1, True)
            beside = await browser.get("/api/s/x/rollouts/0-6/neighbours?q=answer+1+OF+2")
            assert (beside.json["position"], beside.json["total"]) == (1, 1)

    asyncio.run(searching())


def test_the_facets_count_what_can_be_filtered_by(path: Path) -> None:
    facets = ask(path, "facets")
    assert {"value": "completed", "count": 6} in facets["status"]
    assert {"value": "get_weather", "count": 6} in facets["tool"]


def test_tasks_have_their_repeats_as_cells(path: Path) -> None:
    tasks = ask(path, "tasks?sort=task&order=desc&status=completed")
    assert tasks["total"] == 3
    first = tasks["tasks"][0]
    assert (first["task"], first["rollouts"], first["mean"]) == (2, 2, 0.5)
    assert [(cell["id"], cell["reward"]) for cell in first["cells"]] == [("0-5", 1.0), ("0-6", 0.0)]


def test_a_rollout_comes_with_its_repeats_and_attempts(path: Path) -> None:
    found = ask(path, "rollouts/0-4")
    assert (found["id"], found["is_outcome"]) == ("0-4", True)
    assert found["view"]["summary"]["reward"] == 0.0
    assert [each["id"] for each in found["siblings"]] == ["0-3"]
    assert [each["id"] for each in found["attempts"]] == ["0-4"]
    failed = ask(path, "rollouts/1-1")
    assert failed["view"]["failure"]["kind"] == "tool"


def test_turns_come_in_portions(path: Path) -> None:
    everything = ask(path, "rollouts/0-1/turns")["turns"]
    count = ask(path, "rollouts/0-1")["view"]["turns"]
    assert len(everything) == count > 1
    assert ask(path, "rollouts/0-1/turns?from=1&count=1")["turns"] == everything[1:2]
    assert ask(path, f"rollouts/0-1/turns?from={count}&count=50")["turns"] == []
    assert ask(path, "rollouts/0-1/turns?count=100000")["turns"] == everything
    assert ask(path, "rollouts/0-1/steps")["steps"] == []


def test_neighbours_are_those_of_the_filtered_list(path: Path) -> None:
    assert ask(path, "rollouts/0-4/neighbours?success=false") == {
        "previous": "0-2",
        "next": "0-6",
        "position": 2,
        "total": 3,
    }


def test_any_part_of_a_record_can_be_had_as_it_is(path: Path) -> None:
    line = msgspec.json.decode(path.read_bytes().splitlines()[0])
    assert ask(path, "rollouts/0-1/raw") == line
    assert ask(path, "rollouts/0-1/raw?path=") == line
    assert ask(path, "rollouts/0-1/raw?path=/expected_city") == "Berlin"
    text, download = browse(
        path,
        "/api/s/x/rollouts/0-1/text?path=/expected_city",
        "/api/s/x/rollouts/0-1/raw?download=1",
    )
    assert (text.text, text.headers["Content-Type"]) == ("Berlin", "text/plain; charset=utf-8")
    assert download.headers["Content-Disposition"].startswith('attachment; filename="x-0-1.json"')
    assert download.json == line


def test_a_text_is_found_in_its_turns(path: Path) -> None:
    turns = ask(path, "rollouts/0-1/turns")["turns"]
    assert ask(path, "rollouts/0-1/find?q=24+DEGREES") == {
        "turns": [turn["index"] for turn in turns if turn["role"] == "tool"],
        "steps": [],
    }
    assert ask(path, "rollouts/0-1/find?q=") == {"turns": [], "steps": []}


def test_a_picture_of_a_record_is_shown_and_nothing_else_is(path: Path) -> None:
    encoded = base64.b64encode(PNG).decode()
    svg = base64.b64encode(b"<svg onload='alert(1)'/>").decode()
    pictures = {"good": f"data:image/png;base64,{encoded}", "bad": f"data:image/png;base64,{svg}"}
    write(path, [rollout(verified={"pictures": pictures})])
    urls = [
        f"/api/s/x/rollouts/0-1/picture?path=/pictures/{name}" for name in ("good", "bad", "no")
    ]
    good, bad, none, city = browse(path, *urls, "/api/s/x/rollouts/0-1/picture?path=/expected_city")
    assert (good.body, good.headers["Content-Type"]) == (PNG, "image/png")
    assert good.headers["X-Content-Type-Options"] == "nosniff"
    assert (bad.status, none.status, city.status) == (404, 404, 404)


def test_a_rollout_can_be_taken_away_as_one_file(path: Path) -> None:
    write(path, [rollout(question=HOSTILE)])
    [page] = browse(path, "/api/s/x/rollouts/0-1/page.html")
    assert page.headers["Content-Disposition"].startswith('attachment; filename="x-0-1.html"')
    assert page.text.startswith("<!doctype html>")
    assert "<script" not in page.text
    assert "It is warm." in page.text


def test_what_is_streamed_can_be_asked_for_with_get_only(path: Path) -> None:
    async def asking() -> None:
        async with browsing(path) as browser:
            for url in ("/api/s/x/rollouts/0-1/page.html", "/api/s/x/export.jsonl"):
                assert (await browser.get(url, method="HEAD")).status == 405

    asyncio.run(asking())


def test_repeats_are_compared(path: Path) -> None:
    found = ask(path, "tasks/1/repeats")
    assert found["title"] == "What is the weather?"
    assert [(each["id"], each["reward"]) for each in found["repeats"]] == [
        ("0-3", 1.0),
        ("0-4", 0.0),
    ]
    assert found["difference"]["unit"] == "turn"
    assert found["difference"]["index"] == found["repeats"][0]["turns"] - 1
    assert ask(path, "tasks/3/repeats")["difference"]["index"] is None


def test_repeats_are_compared_without_those_that_cannot_be_shown(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = RolloutsFormat.document

    def refusing(kind: RolloutsFormat, record: bytes, context: DocumentContext) -> RolloutDocument:
        if b"odd" in record:
            raise ValueError("it is odd")
        return document(kind, record, context)

    monkeypatch.setattr(RolloutsFormat, "document", refusing)
    odd, alone = rollout(0, 1, answer="odd"), rollout(1, 0, answer="odd")
    write(path, [rollout(0, 0), odd, rollout(0, 2), alone])
    some, none = browse(path, "/api/s/x/tasks/0/repeats", "/api/s/x/tasks/1/repeats")
    assert [repeat["id"] for repeat in some.json["repeats"]] == ["0-1", "0-3"]
    assert some.json["left_out"] == 1
    assert none.status == 422


def test_two_sources_are_joined_by_their_tasks(path: Path) -> None:
    write(path.with_name("y.jsonl"), [rollout(0, 0, 0.0), rollout(0, 1, 0.0)])
    [answer] = browse(path.parent, "/api/joined?left=x&right=y")
    joined = answer.json
    assert (joined["left"]["id"], joined["right"]["id"]) == ("x", "y")
    assert joined["total"] == len(joined["tasks"]) >= 1
    assert sum(joined["counts"].values()) == joined["total"]


def test_what_several_runs_have_in_common_is_reported_from_what_they_have_not(path: Path) -> None:
    folder = path.parent
    make_run(folder / "a", config={"model": "one", "steps": 5}).close()
    make_run(folder / "b", config={"model": "two", "steps": 5}).close()
    [answer] = browse(folder, "/api/configuration?source=a&source=b")
    told = answer.json
    assert [source["id"] for source in told["sources"]] == ["a", "b"]
    [model] = [each for each in told["differences"] if each["name"].endswith("model")]
    assert [value.strip('"') for value in model["values"]] == ["one", "two"]
    assert any(each["name"].endswith("steps") for each in told["constants"])


def test_the_monitor_draws_what_has_ended_and_what_has_not(path: Path) -> None:
    make_run(path.with_name("x.run"), 5, 2).close()
    assert ask(path, "monitor") == {
        "snapshots": [],
        "grid": {
            "cells": "+x+x+x!.!.",
            "rollouts_per_cell": 1,
            "counts": {"success": 3, "failure": 3, "failed": 2, "not_started": 2},
            "entries": [*range(1, 7), EntryId(1, 1).number, None, EntryId(1, 2).number],
        },
    }


def test_a_line_that_is_not_a_record_is_listed_and_its_text_can_be_had(path: Path) -> None:
    write(path, [rollout(), b"{broken\n"])
    listed, shown, raw, text, page = browse(
        path,
        "/api/s/x/rollouts?status=unreadable",
        "/api/s/x/rollouts/0-2",
        "/api/s/x/rollouts/0-2/raw",
        "/api/s/x/rollouts/0-2/text?path=",
        "/api/s/x/rollouts/0-2/page.html",
    )
    [entry] = listed.json["entries"]
    assert (entry["id"], entry["title"]) == ("0-2", "unreadable line 2")
    assert "malformed" in entry["detail"]
    assert (listed.json["total"], listed.json["unreadable"]) == (1, 1)
    view = shown.json["view"]
    assert view["title"] == "unreadable line 2"
    assert view["unreadable"] == {
        "line": 2,
        "offset": len(rollout()),
        "bytes": len(b"{broken"),
        "problem": entry["detail"],
        "text": "{broken",
    }
    assert raw.status == 422
    assert "Cannot show this record" in raw.error
    assert (text.status, text.text) == (200, "{broken")
    assert "{broken" in page.text


def test_only_the_beginning_of_what_is_no_record_is_reported_and_all_of_it_can_be_printed(
    path: Path,
) -> None:
    write(path, [b"\x1b[31m\xff" + "ä".encode() * 10_000 + b"\n"])
    [long] = browse(path, "/api/s/x/rollouts/0-1")
    told = long.json["view"]["unreadable"]
    assert told["bytes"] == 20_006
    assert told["text"].startswith("\ufffd[31m\ufffdää")
    assert told["text"].endswith("ä…")
    assert len(told["text"]) < 500


def test_a_row_that_is_no_utf8_is_the_same_in_the_list_and_on_its_page(path: Path) -> None:
    write(path, [b'{"reward": 1, "note": "\xff", "_ng_task_index": 0}\n'])
    listed, shown, raw = browse(
        path,
        "/api/s/x/rollouts?status=completed",
        "/api/s/x/rollouts/0-1",
        "/api/s/x/rollouts/0-1/raw?path=/note",
    )
    assert (ids(listed.json), listed.json["unreadable"]) == (["0-1"], 0)
    assert shown.json["view"]["summary"]["status"] == "completed"
    assert raw.json == "\ufffd"


def test_a_record_that_goes_away_while_it_is_opened_is_not_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_gone(*_: object) -> None:
        raise KeyError

    write(path, [rollout(), b"{broken\n"])
    monkeypatch.setattr(OpenSource, "unreadable_document", is_gone)
    monkeypatch.setattr(rollouts_module, "related", is_gone)
    for answer in browse(path, "/api/s/x/rollouts/0-1", "/api/s/x/rollouts/0-2"):
        assert (answer.status, "There is no rollout" in answer.error) == (404, True)


def test_a_failed_rollout_is_shown_with_the_prompt_of_its_task(path: Path) -> None:
    write(path.with_name("x_materialized_inputs.jsonl"), [rollout(3, question="Why?")])
    answer, turn, row = browse(
        path,
        "/api/s/x/rollouts/1-1",
        "/api/s/x/rollouts/1-1/raw?path=/responses_create_params/input/1",
        "/api/s/x/rollouts/1-1/raw",
    )
    view = answer.json["view"]
    assert view["title"] == "Why?"
    assert [turn["role"] for turn in view["prompt"]] == ["system", "user"]
    assert turn.json["content"] == "Why?"
    assert "responses_create_params" not in row.json


def test_a_failed_rollout_without_inputs_has_the_title_that_the_list_has(path: Path) -> None:
    write(path, [rollout(3, 1, question="Why?")])
    answer, listed = browse(path, "/api/s/x/rollouts/1-1", "/api/s/x/rollouts?status=failed")
    assert answer.json["view"]["title"] == listed.json["entries"][0]["title"] == "Why?"


def test_where_there_is_no_such_page_the_page_itself_says_so(path: Path) -> None:
    page, missing, static, api = browse(path, "/", "/nope/x?a=1", "/static/nope.js", "/api/nope")
    assert (missing.status, missing.body) == (404, page.body)
    assert missing.headers["Content-Type"] == page.headers["Content-Type"]
    assert (static.status, api.status) == (404, 404)
    assert static.headers["Content-Type"].startswith("text/plain")
    assert "no such page" in api.error


def test_what_cannot_be_answered_says_why(path: Path) -> None:
    for url, status, said in [
        ("/api/none", 404, "no such page"),
        ("/api/s/y/overview", 404, "There is no source 'y'"),
        ("/api/s/y/rollouts/0-1", 404, "There is no source 'y'"),
        ("/api/s/../sources/overview", 404, "no such page"),
        ("/api/s/x/rollouts/0-7", 404, "There is no rollout '0-7'"),
        ("/api/s/x/rollouts/5-1", 404, "There is no rollout '5-1'"),
        ("/api/s/x/rollouts/0-0", 404, "There is no rollout '0-0'"),
        ("/api/s/x/rollouts/17", 404, "There is no rollout '17'"),
        ("/api/s/x/rollouts/-1-1/turns", 404, "There is no rollout"),
        ("/api/s/x/rollouts/0-99999999999999999999", 404, "There is no rollout"),
        ("/api/s/x/rollouts/0-7/neighbours", 404, "0-7"),
        ("/api/s/x/rollouts/0-1/turns?from=-1", 400, "from='-1' is not valid: give a whole number"),
        ("/api/s/x/rollouts/0-1/turns?count=x", 400, "count='x' is not valid: give a whole number"),
        (
            "/api/s/x/rollouts/0-1/turns?from=9999999999999999999",
            400,
            "is not valid: give a whole number",
        ),
        ("/api/s/x/rollouts/0-1/turns?from=%D9%A1", 400, "is not valid: give a whole number"),
        ("/api/s/x/rollouts/0-1/raw?path=/none", 404, "This record has no value at '/none'"),
        ("/api/s/x/rollouts/0-1/raw?path=none", 404, "This record has no value at 'none'"),
        ("/api/s/x/rollouts/0-1/text?path=/reward", 404, "is not a text"),
        ("/api/s/x/rollouts/0-1/text", 400, "`path` is missing"),
        ("/api/s/x/rollouts/0-1/find", 400, "`q` is missing"),
        ("/api/s/x/rollouts/0-1/picture", 400, "`path` is missing"),
        ("/api/s/x/pictures/a.png", 404, "no folder of pictures"),
        ("/api/s/x/tasks/99/repeats", 404, "no rollout of task 99"),
        ("/api/s/x/tasks/x/repeats", 400, "task='x' is not valid: give a whole number"),
        ("/api/s/x/rollouts?success=perhaps", 400, "success"),
        ("/api/s/x/rollouts?min_reward=nan", 400, "min_reward"),
        ("/api/s/x/rollouts?limit=501", 400, "limit"),
        ("/api/s/x/rollouts?offset=-1", 400, "offset"),
        ("/api/s/x/rollouts?sort=nonsense", 400, "sort"),
        ("/api/s/x/rollouts?nonsense=1", 400, "nonsense"),
        ("/api/s/x/overview?status=nonsense", 400, "status"),
        ("/api/s/x/tasks?sort=reward", 400, "sort"),
        ("/api/joined?left=x", 400, "right"),
        ("/api/joined?left=x&right=y", 404, "There is no source 'y'"),
        ("/api/joined?left=x&right=x&change=nonsense", 400, "change"),
        ("/api/configuration?source=y", 404, "There is no source 'y'"),
    ]:
        [answer] = browse(path, url)
        assert answer.status == status, answer.text
        assert answer.headers["Content-Type"] == "application/json"
        assert said in answer.error


def test_every_url_of_the_page_gives_the_page(path: Path) -> None:
    urls = (
        "/",
        "/s/x/",
        "/s/x/tasks",
        "/s/x/tasks/3",
        "/s/x/rollouts?success=true",
        "/s/x/rollouts/0-1?turn=3",
        "/s/x/live",
        "/compare?left=x&right=x",
        "/configuration",
    )
    for answer in browse(path, *urls):
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "rollgym" in answer.text


def test_the_files_of_the_page_are_not_sent_twice(path: Path) -> None:
    async def loading() -> None:
        async with browsing(path) as browser:
            first = await browser.get("/static/main.js")
            assert first.status == 200
            assert first.headers["Content-Type"] == "text/javascript; charset=utf-8"
            assert first.headers["Cache-Control"] == "no-cache"
            again = await browser.get("/static/main.js", If_None_Match=first.headers["ETag"])
            assert (again.status, again.body) == (304, b"")
            other = await browser.get("/static/main.js", If_None_Match='"other"')
            assert other.body == first.body

    asyncio.run(loading())


def test_nothing_but_the_files_of_the_page_is_there(path: Path) -> None:
    for name in [
        "none.js",
        "index.HTML",
        "",
        ".",
        "..",
        "../server.py",
        "..%2fserver.py",
        "..%2Fhttp%2Fapi.py",
        "%2e%2e/server.py",
        "%2e%2e%2fserver.py",
        "%2fetc%2fpasswd",
        "/etc/passwd",
        "main.js%00.css",
        "..%5cserver.py",
        "main.js/",
        "__init__.py",
    ]:
        [answer] = browse(path, f"/static/{name}")
        assert answer.status == 404
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert len(answer.body) < 200


def test_no_other_url_leads_anywhere(path: Path) -> None:
    for url in ["/x.jsonl", "/s/x/../../x.jsonl", "//x.jsonl", "/s//", "/results"]:
        [answer] = browse(path, url)
        assert answer.status == 404
        assert "weather" not in answer.text


def test_a_page_that_is_not_installed_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FOLDER", "documents")
    [answer] = browse(path, "/")
    assert answer.status == 404
    assert "Install rollgym again" in answer.text


def test_pictures_and_har_files_below_the_folder_of_a_source_are_served(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.png").write_bytes(PNG)
    (tmp_path / "secret.har").write_bytes(HAR)
    images = tmp_path / "images"
    images.mkdir()
    (images / "a b.har").write_bytes(HAR)
    (images / "page.har").write_bytes(b"<script>")
    (images / "a b.png").write_bytes(PNG)
    (images / "out.png").symlink_to(tmp_path / "secret.png")

    async def looking() -> None:
        async with browsing(path) as browser:
            shown = await browser.get("/api/s/x/pictures/a%20b.png")
            assert (shown.status, shown.body) == (200, PNG)
            assert shown.headers["Content-Type"] == "image/png"
            for name in ("out.png", "../secret.png", "..%2fsecret.png", "%2e%2e%2fsecret.png"):
                refused = await browser.get(f"/api/s/x/pictures/{name}")
                assert refused.status == 404, name
                assert PNG not in refused.body
            saved = await browser.get("/api/s/x/har/a%20b.har")
            assert (saved.status, saved.body) == (200, HAR)
            assert saved.headers["Content-Type"] == "application/octet-stream"
            assert saved.headers["Content-Disposition"].startswith("attachment;")
            for name, status in (("page.har", 415), ("a%20b.png", 415), ("..%2fsecret.har", 404)):
                assert (await browser.get(f"/api/s/x/har/{name}")).status == status, name

    sources = [msgspec.structs.replace(each, images=images) for each in open_sources([path])]
    monkeypatch.setattr(server, "open_sources", lambda _: sources)
    asyncio.run(looking())


def test_a_file_that_goes_away_is_reported_in_words(path: Path) -> None:
    async def removing() -> None:
        async with browsing(path) as browser:
            path.unlink()  # noqa: ASYNC240 - as anybody could
            shown = await browser.get("/api/s/x/rollouts/0-1")
            assert shown.status == 503
            assert "No such file" in shown.error
            listed = await browser.get("/api/s/x/rollouts")
            assert listed.json["total"] == 8
            await until(
                lambda: browser.get("/api/sources"),
                lambda answer: "is missing now" in answer.json["sources"][0]["state"]["problem"],
            )

    asyncio.run(removing())


def test_a_question_that_takes_too_long_is_answered_with_words(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waiting() -> Answer:
        async with browsing(path) as browser:
            monkeypatch.setattr(library_module, "QUERY_TIMEOUT", 0.0)
            return await browser.get("/api/s/x/rollouts?success=true")

    answer = asyncio.run(waiting())
    assert answer.status == 503
    assert "Try again later" in answer.error


def test_rows_of_any_shape_have_an_answer(path: Path) -> None:
    deep = [b'{"output": %s%s}\n' % (b"[" * depth, b"]" * depth) for depth in range(900, 1000, 9)]
    odd = [
        b"{}\n",
        b"[]\n",
        b"5\n",
        b'{"output": 5, "metadata": [1], "reward": 1e999}\n',
        b'{"output": [null, 5, {"type": 3}], "responses_create_params": {"input": {}}}\n',
        b'{"a": "\\ud800"}\n',
        b'{"a": "\xff"}\n',
        b'{"reward": "much", "_ng_task_index": -1}\n',
    ]
    write(path, [*odd, *deep])
    ends = (
        "",
        "/turns",
        "/steps",
        "/raw",
        "/text?path=",
        "/text?path=/a",
        "/find?q=a",
        "/page.html",
    )
    urls = [
        f"/api/s/x/rollouts/0-{n + 1}{end}" for n in range(len(odd) + len(deep)) for end in ends
    ]
    listed, *answers = browse(path, "/api/s/x/rollouts", *urls)
    assert listed.status == 200
    for url, answer in zip(urls, answers, strict=True):
        assert answer.status in {200, 404, 422}, (url, answer.text)


def test_where_no_index_can_be_written_beside_the_file_another_place_is_taken(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / ".x.jsonl.rollgym-index").mkdir()
    assert ask(path, "rollouts")["total"] == 8
    assert any(file.is_file() for file in (tmp_path / "cache").rglob("*"))


def test_what_was_read_so_far_is_shown_while_the_rest_is_still_coming(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader is stopped after the first record."""
    read_on = OpenSource.read_on

    def read_once(opened: OpenSource) -> bool:
        if not opened.asked:
            read_on(opened)
            opened.asked = 1.0
        return False

    monkeypatch.setattr(open_source_module, "READING_SECONDS", 0.0)
    monkeypatch.setattr(OpenSource, "read_on", read_once)

    async def looking() -> None:
        async with serving([path], LOOPBACK, 0) as root, aiohttp.ClientSession() as session:
            browser = Browser(root, session)
            [source] = (await browser.get("/api/sources")).json["sources"]
            state = source["state"]
            assert not state["ready"]
            assert 0 < state["read"] < state["size"]
            assert ids((await browser.get("/api/s/x/rollouts")).json) == ["0-1"]
            assert (await browser.get("/api/s/x/overview")).json["rollouts"] == 1
            exported = await browser.get("/api/s/x/export.jsonl")
            assert exported.status == 503
            assert "still being read" in exported.error

    asyncio.run(looking())
