"""The plain agent, around a model that does as it is told and an environment that records."""

import asyncio
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from responses_api_agents.simple_agent.tests.stage import (
    MODEL_COOKIE,
    Storeroom,
    call,
    on_stage,
    outputs,
    row,
    say,
)
from rollgym.records import EnvironmentSessionError, ModelUnavailableError, TaskError
from rollgym.servers import CookieJar, ServerConfig
from rollgym.servers.config import ConfigError, load_config, load_server_class, load_settings

T = TypeVar("T")
TRANSPORTS = pytest.mark.parametrize("transport", ["in process", "HTTP"])


def complete(scene: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(scene)


@TRANSPORTS
def test_a_conversation_of_several_turns_becomes_one_response(transport: str) -> None:
    async def scene() -> None:
        turns = [
            [say("First the hammer."), call("put", '{"item":"hammer"}', "one")],
            [call("put", '{"item":"saw"}', "two")],
            [say("Done.")],
        ]
        async with on_stage(turns, transport=transport) as stage:
            verified = await stage.run()
            response = verified["response"]
            assert [item["type"] for item in response["output"]] == [
                "message",
                "function_call",
                "function_call_output",
                "function_call",
                "function_call_output",
                "message",
            ]
            assert (response["id"], response["status"]) == ("resp_3", "completed")
            assert outputs(verified) == ["1 on the shelf", "2 on the shelf"]
            assert verified["items"] == ["hammer", "saw"]
            assert verified["kept"] == 1.0
            task = {"role": "user", "content": "Tidy up."}
            assert stage.model.requests[2]["input"] == [task, *response["output"][:-1]]
            assert stage.model.requests[2]["tools"] == row()["responses_create_params"]["tools"]

    complete(scene())


def test_the_token_usage_of_all_turns_is_added_up() -> None:
    async def scene() -> None:
        async with on_stage([[call("put", '{"item":"saw"}')], [say("Done.")]]) as stage:
            usage = (await stage.run())["response"]["usage"]
            assert usage == {
                "input_tokens": 30,
                "input_tokens_details": {"cached_tokens": 3},
                "output_tokens": 6,
                "output_tokens_details": {"reasoning_tokens": 2},
                "total_tokens": 36,
            }

    complete(scene())


def test_the_last_turn_that_max_steps_allows_ends_the_episode_without_calling_its_tools() -> None:
    async def scene() -> None:
        turns = [[call("put", f'{{"item":"{number}"}}', str(number))] for number in range(3)]
        async with on_stage(turns, max_steps=2) as stage:
            verified = await stage.run()
            response = verified["response"]
            assert response["status"] == "incomplete"
            assert response["incomplete_details"] == {"reason": "max_steps"}
            assert verified["items"] == ["0"]
            assert len(stage.model.requests) == 2
            assert response["output"][-1]["type"] == "function_call"
            assert verified["reward"] == 1.0

    complete(scene())


def test_a_turn_that_was_cut_short_ends_the_episode_with_its_reason() -> None:
    async def scene() -> None:
        cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        turns = [[say("I will"), call("put", '{"item":"h')]]
        async with on_stage(turns, response_fields=cut) as stage:
            verified = await stage.run()
            assert verified["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
            assert verified["items"] == []

    complete(scene())


@TRANSPORTS
def test_calls_of_one_turn_run_side_by_side_and_are_answered_in_their_order(transport: str) -> None:
    async def scene() -> None:
        names = ["ann", "ben", "cleo"]
        calls = [call("meet", f'{{"name":"{name}"}}', name) for name in names]
        turns = [calls, [say("Done.")]]
        async with on_stage(turns, transport=transport, storeroom=Storeroom(meeting=3)) as stage:
            verified = await stage.run()
            assert outputs(verified) == [f"{name} was there" for name in names]
            answered = verified["response"]["output"][3:6]
            assert [item["call_id"] for item in answered] == names

    complete(scene())


def test_arguments_that_are_no_json_object_are_answered_to_the_model() -> None:
    cases: Iterable[str] = ['{"item":"saw"', "[1]", '"saw"', "null", "saw", "{} {}"]
    for arguments in cases:

        async def scene() -> None:
            async with on_stage([[call("put", arguments)], [say("Sorry.")]]) as stage:
                verified = await stage.run()
                assert outputs(verified)[0].startswith(
                    '{"error":{"message":"the arguments of put are not a JSON object'
                )
                assert verified["items"] == []

        complete(scene())


def test_no_arguments_at_all_are_those_of_a_call_without_any() -> None:
    async def scene() -> None:
        async with on_stage([[call("refuse", "")], [say("Sorry.")]]) as stage:
            assert "the storeroom is closed" in outputs(await stage.run())[0]

    complete(scene())


@TRANSPORTS
def test_only_the_tools_of_the_task_can_be_called(transport: str) -> None:
    cases: Iterable[str] = [
        "verify",
        "../verify",
        "/verify",
        "verify?x=1",
        "seed_session",
        "close_session",
        "",
        "putt",
    ]
    for name in cases:

        async def scene() -> None:
            turns = [[call(name, '{"reward":1}')], [say("Well.")]]
            async with on_stage(turns, transport=transport) as stage:
                verified = await stage.run()
                assert f"unknown tool {name!r}" in outputs(verified)[0]
                assert "put" in outputs(verified)[0]
                assert stage.storeroom.verified == 1

        complete(scene())


def test_a_tool_of_the_server_that_the_task_does_not_name_cannot_be_called() -> None:
    async def scene() -> None:
        async with on_stage([[call("put", '{"item":"saw"}')], [say("Well.")]]) as stage:
            verified = await stage.run(tools=[])
            assert "unknown tool 'put'" in outputs(verified)[0]
            assert verified["items"] == []

    complete(scene())


@TRANSPORTS
def test_what_a_tool_answers_as_an_http_error_is_shown_to_the_model(transport: str) -> None:
    cases: Iterable[tuple[str, str, str]] = [
        ("refuse", "{}", "the storeroom is closed"),
        ("crash", "{}", "crash failed: KeyError: 'shelf'"),
        ("put", "{}", "wrong arguments for put: item: Field required"),
        ("put", '{"item":3}', "wrong arguments for put: item"),
        ("put", '{"item":"saw","state":{"items":[]}}', "wrong arguments for put: state"),
    ]
    for name, arguments, told in cases:

        async def scene() -> None:
            turns = [[call(name, arguments)], [say("I see.")]]
            async with on_stage(turns, transport=transport) as stage:
                verified = await stage.run()
                assert outputs(verified) == [stage.model.requests[1]["input"][-1]["output"]]
                assert told in msgspec.json.decode(outputs(verified)[0])["error"]["message"]
                assert verified["items"] == []

        complete(scene())


@TRANSPORTS
def test_a_failure_half_way_is_typed_and_keeps_the_trajectory_so_far(transport: str) -> None:
    async def scene() -> None:
        turns = [[call("put", '{"item":"saw"}')]]
        async with on_stage(turns, transport=transport) as stage:
            with pytest.raises(ModelUnavailableError, match="gone home") as raised:
                await stage.run()
            assert raised.value.partial is not None
            response = msgspec.json.decode(raised.value.partial)["response"]
            assert response["status"] == "incomplete"
            assert [item["type"] for item in response["output"]] == [
                "function_call",
                "function_call_output",
            ]
            assert response["usage"]["total_tokens"] == 13
            assert stage.storeroom.verified == 0
            assert stage.storeroom.health()["sessions"] == 0

    complete(scene())


@TRANSPORTS
def test_a_tool_that_fails_the_rollout_does_so_also_among_others(transport: str) -> None:
    async def scene() -> None:
        turns = [[call("put", '{"item":"saw"}', "one"), call("lose_session", "{}", "two")]]
        async with on_stage(turns, transport=transport) as stage:
            with pytest.raises(EnvironmentSessionError, match="burnt down"):
                await stage.run()

    complete(scene())


@TRANSPORTS
def test_each_server_gets_its_own_cookies_back_and_nobody_elses(transport: str) -> None:
    async def scene() -> None:
        turns = [[call("put", '{"item":"saw"}')], [say("Done.")]] * 2
        async with on_stage(turns, transport=transport) as stage:
            assert (await stage.run())["items"] == ["saw"]
            assert (await stage.run())["items"] == ["saw"]
            own = {MODEL_COOKIE: "abc"}
            assert stage.model.cookies == [{}, own, {}, own]
            assert stage.storeroom.health()["sessions"] == 0

    complete(scene())


@TRANSPORTS
def test_a_caller_that_seeds_and_verifies_itself_has_its_session_used(transport: str) -> None:
    async def scene() -> None:
        turns = [[call("put", '{"item":"saw"}')], [say("Done.")]]
        async with on_stage(turns, transport=transport) as stage:
            jar = CookieJar((await stage.environment.post("/seed_session", row())).cookies)
            answer = await stage.agent.post("/v1/responses", row()["responses_create_params"], jar)
            verdict = await stage.environment.post(
                "/verify", {**row(), "response": msgspec.json.decode(answer.body)}, jar
            )
            assert msgspec.json.decode(verdict.body)["items"] == ["saw"]

    complete(scene())


def test_the_input_may_be_items_or_a_text_and_nothing_else() -> None:
    async def scene() -> None:
        items = [{"role": "developer", "content": "Be tidy."}, {"role": "user", "content": "Go."}]
        async with on_stage([[say("Done.")]]) as stage:
            await stage.run(items)
            assert stage.model.requests[0]["input"] == items
            with pytest.raises(TaskError, match="must be a string or a list"):
                await stage.run(17)

    complete(scene())


def test_its_configuration_has_every_setting_with_its_default(tmp_path: Path) -> None:
    configs = (
        "responses_api_models/scripted_model/configs/scripted_model.yaml",
        "resources_servers/mcqa/configs/mcqa.yaml",
        "responses_api_agents/simple_agent/configs/simple_agent.yaml",
    )
    paths = f"+config_paths=[{','.join(configs)}]"
    key = "simple_agent.responses_api_agents.simple_agent.resources_server.name"
    with pytest.raises(ConfigError, match=key):
        load_config([paths], tmp_path, listening=False)
    given = f"+{key}=mcqa_resources_server"
    instance = load_config([paths, given], tmp_path, listening=False).instance("simple_agent")
    assert load_server_class(instance) is SimpleAgent
    config = load_settings(instance, SimpleAgent)
    assert isinstance(config, SimpleAgentConfig)
    assert config == SimpleAgentConfig(
        resources_server=config.resources_server, model_server=config.model_server
    )
    own = set(SimpleAgentConfig.model_fields) - set(ServerConfig.model_fields)
    assert own <= set(instance.settings)
