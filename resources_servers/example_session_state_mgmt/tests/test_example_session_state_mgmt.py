"""The counter environment, through its real server."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from resources_servers.example_session_state_mgmt.app import LARGEST_STEP, CounterServer
from resources_servers.example_session_state_mgmt.generate import generate_rows, main
from rollgym.records import EnvironmentSessionError, TaskError
from rollgym.servers import (
    CookieJar,
    ResourcesConfig,
    ServerClient,
    tool_schemas,
)
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.testing import reached

FOLDER = Path(__file__).parents[1]
TRANSPORTS = pytest.mark.parametrize("transport", ["in process", "HTTP"])
Json = dict[str, Any]


def counters(transport: str = "in process") -> AbstractAsyncContextManager[ServerClient]:
    return reached(CounterServer("counter", ResourcesConfig()), over_http=transport == "HTTP")


def row(initial: int = 3, expected: int = 10) -> Json:
    return {"initial_count": initial, "expected_count": expected}


async def seeded(client: ServerClient, task: Json) -> CookieJar:
    jar = CookieJar()
    await client.post("/seed_session", task, jar)
    return jar


async def read(client: ServerClient, jar: CookieJar) -> int:
    return msgspec.json.decode((await client.post("/get_counter_value", {}, jar)).body, type=int)


async def verify(client: ServerClient, task: Json, jar: CookieJar) -> Json:
    answer = await client.post("/verify", {**task, "response": {"output": []}}, jar)
    verified: Json = msgspec.json.decode(answer.body)
    return verified


@TRANSPORTS
def test_each_session_has_a_counter_of_its_own(transport: str) -> None:
    async def scene() -> None:
        async with counters(transport) as client:
            first, second = await seeded(client, row(3)), await seeded(client, row(100))
            answer = await client.post("/increment_counter", {"count": 4}, first)
            assert answer.text == "Added 4."
            await client.post("/increment_counter", {"count": 1}, second)
            assert (await read(client, first), await read(client, second)) == (7, 101)

    asyncio.run(scene())


@TRANSPORTS
def test_the_verdict_is_about_the_counter_and_not_about_words(transport: str) -> None:
    async def scene() -> None:
        async with counters(transport) as client:
            jar = await seeded(client, row(3, 10))
            await client.post("/increment_counter", {"count": 7}, jar)
            verified = await verify(client, row(3, 10), jar)
            assert (verified["reward"], verified["success"]) == (1.0, True)
            assert verified["final_count"] == 10
            jar = await seeded(client, row(3, 10))
            verified = await verify(client, row(3, 10), jar)
            assert (verified["reward"], verified["final_count"]) == (0.0, 3)

    asyncio.run(scene())


@TRANSPORTS
def test_a_session_ends_with_its_verdict(transport: str) -> None:
    async def scene() -> None:
        async with counters(transport) as client:
            jar = await seeded(client, row())
            before = CookieJar(jar.cookies)
            await verify(client, row(), jar)
            assert jar.cookies == {}
            with pytest.raises(EnvironmentSessionError, match="does not have this session"):
                await client.post("/get_counter_value", {}, before)

    asyncio.run(scene())


def test_a_tool_without_a_session_says_how_to_get_one() -> None:
    async def scene() -> None:
        async with counters() as client:
            with pytest.raises(EnvironmentSessionError, match="call /seed_session first"):
                await client.post("/increment_counter", {"count": 1})

    asyncio.run(scene())


def test_a_count_that_cannot_be_added_is_refused_and_changes_nothing() -> None:
    cases: Iterable[object] = [0, -1, LARGEST_STEP + 1, "three", 1.5, None]
    for count in cases:

        async def scene() -> None:
            async with counters() as client:
                jar = await seeded(client, row(3))
                answer = await client.post("/increment_counter", {"count": count}, jar)
                assert answer.status == 422
                assert "wrong arguments for increment_counter: count" in answer.text
                assert await read(client, jar) == 3

        asyncio.run(scene())


def test_a_row_without_its_counts_cannot_be_run() -> None:
    async def scene() -> None:
        async with counters() as client:
            with pytest.raises(TaskError, match="expected_count: Field required"):
                await client.post("/seed_session", {"initial_count": 1})

    asyncio.run(scene())


def test_the_generated_tasks_can_be_solved_by_adding() -> None:
    for task in generate_rows(50, seed=1):
        assert task["expected_count"] > task["initial_count"] >= 0


def test_the_example_rows_are_what_the_generator_writes(tmp_path: Path) -> None:
    main(["--count", "5", "--seed", "0", "--output", str(tmp_path / "rows.jsonl")])
    written = (tmp_path / "rows.jsonl").read_bytes()
    assert written == (FOLDER / "data" / "example.jsonl").read_bytes()
    for line in written.splitlines():
        params = msgspec.json.decode(line)["responses_create_params"]
        assert params["tools"] == tool_schemas(CounterServer)


def test_the_configuration_with_a_model_makes_three_servers(tmp_path: Path) -> None:
    scripted = "responses_api_models/scripted_model/configs/scripted_model.yaml"
    config = "resources_servers/example_session_state_mgmt/configs/example_session_state_mgmt.yaml"
    run = load_config([f"+config_paths=[{scripted},{config}]"], tmp_path, listening=False)
    assert [instance.name for instance in run.instances] == [
        "policy_model",
        "example_session_state_mgmt_resources_server",
        "example_session_state_mgmt_simple_agent",
    ]
    for instance in run.instances:
        load_settings(instance, load_server_class(instance))
    assert load_server_class(run.instances[1]) is CounterServer
