"""The document environment, through its real server."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resources_servers.example_multi_step import app
from resources_servers.example_multi_step.app import (
    LONGEST_QUERY,
    LONGEST_READING,
    MultiStepConfig,
    MultiStepServer,
)
from resources_servers.example_multi_step.documents import DocumentRecipe, write_document
from resources_servers.example_multi_step.generate import generate_rows, main
from rollgym.records import TaskError
from rollgym.servers import (
    CookieJar,
    ServerClient,
    tool_schemas,
)
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.testing import reached

FOLDER = Path(__file__).parents[1]
EXAMPLE = FOLDER / "data" / "example.jsonl"
TRANSPORTS = pytest.mark.parametrize("transport", ["in process", "HTTP"])
Json = dict[str, Any]


def documents(
    transport: str = "in process", config: MultiStepConfig | None = None
) -> AbstractAsyncContextManager[ServerClient]:
    server = MultiStepServer("documents", config or MultiStepConfig())
    return reached(server, over_http=transport == "HTTP")


def example_rows() -> list[Json]:
    return [msgspec.json.decode(line) for line in EXAMPLE.read_bytes().splitlines()]


async def seeded(client: ServerClient, row: Json) -> CookieJar:
    jar = CookieJar()
    await client.post("/seed_session", row, jar)
    return jar


async def search(client: ServerClient, jar: CookieJar, query: str, **arguments: int) -> str:
    answer = await client.post("/search_document", {"query": query, **arguments}, jar)
    return answer.text


async def verify(client: ServerClient, row: Json, text: str, jar: CookieJar) -> Json:
    content = [{"type": "output_text", "text": text}]
    output = [{"type": "message", "role": "assistant", "content": content}]
    answer = await client.post("/verify", {**row, "response": {"output": output}}, jar)
    verified: Json = msgspec.json.decode(answer.body)
    return verified


@TRANSPORTS
def test_the_facts_are_found_by_searching_and_all_of_them_earn_the_reward(transport: str) -> None:
    async def scene() -> None:
        row = example_rows()[-1]
        needles = row["document"]["needles"]
        async with documents(transport) as client:
            jar = await seeded(client, row)
            for needle in needles:
                found = await search(client, jar, needle["text"], max_results=1)
                position, _, text = found.removeprefix("Found at ").partition(": ")
                assert text == needle["text"]
                reading = {"position": int(position), "length": len(text)}
                passage = await client.post("/read_passage", reading, jar)
                assert passage.text == text
            answers = "; ".join(needle["value"] for needle in needles)
            verified = await verify(client, row, f"Answer: {answers}", jar)
            assert (verified["reward"], verified["success"]) == (1.0, True)
            assert verified["verification_score"] == 1.0
            assert verified["searches"] == len(needles) == 4
            assert verified["missing_values"] == []

    asyncio.run(scene())


def test_some_of_the_facts_earn_their_share_but_are_no_success() -> None:
    async def scene() -> None:
        row = example_rows()[-1]
        values = [needle["value"] for needle in row["document"]["needles"]]
        async with documents() as client:
            jar = await seeded(client, row)
            verified = await verify(client, row, f"Answer: {values[0]}; nobody", jar)
            assert (verified["reward"], verified["success"]) == (0.25, False)
            assert verified["verification_score"] == 0.25
            assert verified["missing_values"] == values[1:]
            assert verified["extracted_answers"] == [values[0], "nobody"]

    asyncio.run(scene())


@TRANSPORTS
def test_each_session_reads_its_own_document(transport: str) -> None:
    async def scene() -> None:
        rows = example_rows()
        async with documents(transport) as client:
            first, last = await seeded(client, rows[0]), await seeded(client, rows[-1])
            needle = rows[0]["document"]["needles"][0]
            assert needle["text"] in await search(client, first, needle["value"])
            assert needle["text"] not in await search(client, last, needle["value"])

    asyncio.run(scene())


def test_a_search_that_finds_nothing_says_so() -> None:
    async def scene() -> None:
        async with documents() as client:
            jar = await seeded(client, example_rows()[0])
            assert await search(client, jar, "zeppelin") == (
                "Nothing found for 'zeppelin'. Try other words."
            )

    asyncio.run(scene())


def test_a_call_that_cannot_be_answered_tells_the_model_why() -> None:
    cases: Iterable[tuple[str, Json, int, str]] = [
        ("search_document", {"query": "the of ?"}, 400, "contains no words to search for"),
        ("search_document", {"query": "x" * (LONGEST_QUERY + 1)}, 422, "query"),
        ("search_document", {"query": "x", "max_results": 0}, 422, "max_results"),
        ("search_document", {"query": "x", "max_results": 11}, 422, "max_results"),
        ("search_document", {"words": "x"}, 422, "query: Field required"),
        ("read_passage", {"position": 10_000_000}, 400, "the document ends at position"),
        ("read_passage", {"position": -1}, 422, "position"),
        ("read_passage", {"position": 0, "length": LONGEST_READING + 1}, 422, "length"),
    ]
    for tool, arguments, status, told in cases:

        async def scene() -> None:
            async with documents() as client:
                jar = await seeded(client, example_rows()[0])
                answer = await client.post(f"/{tool}", arguments, jar)
                assert answer.status == status
                assert told in answer.text

        asyncio.run(scene())


def test_repeats_of_a_task_share_a_document_and_the_cache_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = []

    def write(recipe: DocumentRecipe) -> str:
        written.append(recipe.seed)
        return write_document(recipe)

    async def scene() -> None:
        monkeypatch.setattr(app, "write_document", write)
        first, second, third = example_rows()[:3]
        async with documents(config=MultiStepConfig(cached_documents=2)) as client:
            for row in (first, first, second, first, third, first, second):
                await seeded(client, row)

    asyncio.run(scene())
    first, second, third = (row["document"]["seed"] for row in example_rows()[:3])
    assert written == [first, second, third, second]


def test_a_row_whose_document_cannot_be_made_cannot_be_run() -> None:
    async def scene() -> None:
        row = example_rows()[0]
        row["document"]["length"] = 200_000
        async with documents() as client:
            with pytest.raises(TaskError, match="document.length"):
                await client.post("/seed_session", row)

    asyncio.run(scene())


def test_the_example_rows_are_what_the_generator_writes(tmp_path: Path) -> None:
    main(["--count", "5", "--seed", "0", "--output", str(tmp_path / "rows.jsonl")])
    assert (tmp_path / "rows.jsonl").read_bytes() == EXAMPLE.read_bytes()
    for row in example_rows():
        assert row["responses_create_params"]["tools"] == tool_schemas(MultiStepServer)


def test_the_example_rows_get_harder() -> None:
    recipes = [row["document"] for row in example_rows()]
    lengths = [recipe["length"] for recipe in recipes]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (5_000, 100_000)
    assert [len(recipe["needles"]) for recipe in recipes] == [2, 2, 3, 3, 4]


def test_a_prompt_tells_none_of_the_answers() -> None:
    for row in generate_rows(20, seed=3):
        prompt = row["responses_create_params"]["input"][0]["content"]
        assert prompt.startswith("Find the hidden information in this document")
        assert all(tool["name"] in prompt for tool in tool_schemas(MultiStepServer))
        assert app.read_answers(prompt) == []
        for needle in row["document"]["needles"]:
            assert needle["value"] not in prompt


def test_the_configuration_with_a_model_makes_three_servers(tmp_path: Path) -> None:
    scripted = "responses_api_models/scripted_model/configs/scripted_model.yaml"
    config = "resources_servers/example_multi_step/configs/example_multi_step.yaml"
    run = load_config([f"+config_paths=[{scripted},{config}]"], tmp_path, listening=False)
    assert [instance.name for instance in run.instances] == [
        "policy_model",
        "example_multi_step_resources_server",
        "example_multi_step_simple_agent",
    ]
    for instance in run.instances:
        load_settings(instance, load_server_class(instance))
    assert load_server_class(run.instances[1]) is MultiStepServer
