"""Several processes of one server: their sessions, their addresses, and the loss of one."""

import json
import os
import signal
from pathlib import Path

import pytest

from rollgym.engine import run
from rollgym.records import EnvironmentSessionError, RolloutError, ToolError
from rollgym.servers import CookieJar, Http, ServerClient, http_session
from rollgym.servers.config.loading import RunConfig, load_config
from rollgym.servers.launch.fleet import started_in_process
from rollgym.servers.launch.records import ServerStatus, StartError
from tests.integration.servers.launch.probe import ProbeRun, ask, until

ROOT = Path(__file__).parents[4]
NAME = "example_session_state_mgmt_resources_server"
ROUTE = f"replica_{NAME}"
TASK = {"initial_count": 3, "expected_count": 5}


def counters(folder: Path, **settings: int) -> RunConfig:
    (folder / "responses_api_models").symlink_to(ROOT / "responses_api_models")
    part = f"+{NAME}.resources_servers.example_session_state_mgmt"
    files = [
        "resources_servers/example_session_state_mgmt/configs/example_session_state_mgmt.yaml",
        "responses_api_models/scripted_model/configs/scripted_model.yaml",
    ]
    named = ",".join(str(ROOT / each) for each in files)
    given = [f"{part}.{name}={value}" for name, value in settings.items()]
    return load_config([f"+config_paths=[{named}]", *given], folder, listening=False)


async def add(client: ServerClient, jar: CookieJar, count: int) -> None:
    answer = await client.post("/increment_counter", {"count": count}, jar)
    assert answer.ok, answer.text


async def counted(client: ServerClient, jar: CookieJar) -> str:
    return (await client.post("/get_counter_value", {}, jar)).text


def test_a_session_is_found_through_the_address_of_any_replica(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            started_in_process(counters(tmp_path, processes=2)) as servers,
            http_session() as session,
        ):
            record = next(each for each in servers.records() if each.name == NAME)
            first, second = (ServerClient("theirs", [Http(url, session)]) for url in record.urls)
            jars = [CookieJar() for _ in range(4)]
            for jar, client in zip(jars, (first, second, first, second), strict=True):
                assert (await client.post("/seed_session", TASK, jar)).ok
            for jar in jars:
                await add(first, jar, 1)
                await add(second, jar, 1)
                assert await counted(first, jar) == await counted(second, jar) == "5"

            for odd in ("00", "7", "-1", "x"):  # such requests stay where they are
                changed = CookieJar(jars[0].cookies | {ROUTE: odd})
                assert await counted(first, changed) == "5"

            there = servers.client(NAME).one(jars[1].cookies)
            assert record.pids[1] is not None
            os.kill(record.pids[1], signal.SIGKILL)
            with pytest.raises(ToolError, match="gave no answer"):
                await there.call("/get_counter_value", b"{}", error=ToolError, jar=jars[1])
            with pytest.raises(EnvironmentSessionError):
                await first.call("/get_counter_value", b"{}", error=ToolError, jar=jars[1])
            assert await counted(first, jars[0]) == "5"

    run(scenario())


def test_a_server_goes_on_without_a_process_that_is_not_restarted_any_more(
    probes: ProbeRun,
) -> None:
    probes.add("many", processes=2, restarts=0)
    told: list[str] = []

    async def scenario() -> None:
        async with started_in_process(probes.config(), announce=told.append) as servers:
            client, record = servers.client("many"), servers.records()[0]
            lost, left = record.pids
            os.kill(lost, signal.SIGKILL)
            await until(lambda: len(told) == 1)
            kept = [client.one() for _ in range(3)]
            for each in kept:
                try:
                    assert (await ask(each, "/process"))["pid"] == left
                except RolloutError:
                    continue
            assert {(await ask(client.one(), "/process"))["pid"] for _ in range(4)} == {left}
            assert [each.status for each in servers.records()[0].replicas] == [
                ServerStatus.FAILED,
                ServerStatus.READY,
            ]

    run(scenario())
    assert told[0].endswith("1 of the 2 processes of many go on")


def test_the_limit_of_an_endpoint_is_that_of_all_replicas(tmp_path: Path) -> None:
    def model(limit: int) -> RunConfig:
        part = "+policy_model.responses_api_models.openai_model"
        given = [f"{part}.max_concurrency={limit}", f"{part}.processes=2"]
        named = "responses_api_models/openai_model/configs/openai_model.yaml"
        url = "+policy_base_url=http://127.0.0.1:9/v1"
        about = [url, "+policy_api_key=none", "+policy_model_name=none"]
        arguments = [f"+config_paths=[{ROOT / named}]", *about, *given]
        return load_config(arguments, tmp_path, listening=False)

    async def limits() -> list[int]:
        async with started_in_process(model(5)) as servers, http_session() as session:
            found = []
            for url in servers.records()[0].urls:
                one = ServerClient("policy_model", [Http(url, session)])
                answer = await one.call("/healthz", b"", error=ToolError, method="GET")
                found.append(json.loads(answer.body)["endpoints"][0]["limit"])
            return found

    async def too_many() -> None:
        async with started_in_process(model(1)):
            pass

    assert run(limits()) == [3, 2]
    with pytest.raises(StartError, match="max_concurrency is 1, and its 2 processes"):
        run(too_many())
