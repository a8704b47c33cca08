"""The plain agent, around a model that does as it is told and an environment that records."""

import asyncio
import base64
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from responses_api_agents.simple_agent.tests.stage import (
    MODEL_COOKIE,
    PICTURE,
    Storeroom,
    call,
    on_stage,
    outputs,
    row,
    say,
)
from rollgym.records import (
    EnvironmentSessionError,
    Failure,
    ModelContextError,
    ModelUnavailableError,
    TaskError,
    ToolError,
)
from rollgym.records.branches import branches_of
from rollgym.records.tokens import TokenTurn
from rollgym.servers import CookieJar, ServerConfig
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.config.problems import ConfigError
from rollgym.servers.context import working_for

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


@TRANSPORTS
def test_the_tokens_of_a_rollout_are_beside_the_conversation_each_stored_once(
    transport: str,
) -> None:
    def turn(item: dict[str, Any], prompt: list[int], sampled: list[int]) -> list[dict[str, Any]]:
        fields = {"prompt_token_ids": prompt, "generation_token_ids": sampled}
        return [{**item, **fields, "generation_log_probs": [-0.5] * len(sampled)}]

    def turns() -> list[list[dict[str, Any]]]:
        return [
            turn(call("put", '{"item":"saw"}', "one"), [1, 2], [3, 4]),
            turn(call("put", '{"item":"axe"}', "two"), [1, 2, 3, 4, 5], [6]),
            turn(say("Done."), [1, 2, 3, 4, 5, 9], [7, 8]),
        ]

    async def scene() -> None:
        async with on_stage(turns(), transport=transport) as stage:
            with working_for("0/0"):
                verified = await stage.run()
            assert "token_ids" not in str((stage.model.requests, verified["response"]))
            stored = msgspec.convert(verified["rollgym_tokens"], list[TokenTurn])
            assert [each.item for each in stored] == [0, 2, 4]
            first, second = branches_of(stored)
            assert (first.input_ids, first.loss_mask) == ([1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 0, 1])
            assert (second.input_ids, second.reason) == ([1, 2, 3, 4, 5, 9, 7, 8], "end")
        # A program that does not know them gets the tokens where NeMo Gym has them.
        async with on_stage(turns(), transport=transport) as stage:
            verified = await stage.run()
            assert verified["response"]["output"][-1]["generation_token_ids"] == [7, 8]
            assert "rollgym_tokens" not in verified

    complete(scene())


def test_the_tokens_of_a_failed_rollout_are_kept() -> None:
    async def scene() -> None:
        first = call("put", '{"item":"saw"}') | {
            "prompt_token_ids": [1],
            "generation_token_ids": [2],
        }
        async with on_stage([[first], ModelUnavailableError("gone")]) as stage:
            with working_for("0/0"), pytest.raises(ModelUnavailableError) as raised:
                await stage.run()
            kept = msgspec.json.decode(raised.value.partial or b"{}")
            assert len(kept["rollgym_tokens"]) == 1

    complete(scene())


def test_a_row_with_tokens_of_an_earlier_collection_gets_those_of_this_one() -> None:
    async def scene() -> None:
        said = say("Done.") | {"prompt_token_ids": [1], "generation_token_ids": [2]}
        earlier = row("Tidy up.") | {"rollgym_tokens": [{"problem": "earlier"}], "kept": "{}"}
        async with on_stage([[said]]) as stage:
            with working_for("0/0"):
                answer = await stage.agent.post("/run", earlier)
            assert answer.body.count(b'"rollgym_tokens"') == 1
            verified = msgspec.json.decode(answer.body)
            (turn,) = msgspec.convert(verified["rollgym_tokens"], list[TokenTurn])
            assert (turn.problem, verified["kept"]) == ("", "{}")

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


@TRANSPORTS
def test_at_max_steps_the_last_calls_are_made_and_the_response_is_completed(transport: str) -> None:
    async def scene() -> None:
        turns = [[call("put", f'{{"item":"{number}"}}', str(number))] for number in range(3)]
        async with on_stage(turns, transport=transport, settings={"max_steps": 2}) as stage:
            verified = await stage.run()
            response = verified["response"]
            assert (response["status"], response.get("incomplete_details")) == ("completed", None)
            assert response["metadata"] == {"stopped_by": "max_steps"}
            assert verified["items"] == ["0", "1"]
            assert len(stage.model.requests) == 2
            assert response["output"][-1]["type"] == "function_call_output"

    complete(scene())


def test_a_model_that_ends_by_itself_in_its_last_step_is_not_stopped() -> None:
    async def scene() -> None:
        echoed = {"metadata": {"seed": "7", "tool_errors": "99"}}
        settings = {"max_steps": 1}
        async with on_stage([[say("Hi.")]], settings=settings, response_fields=echoed) as stage:
            assert (await stage.run())["response"]["metadata"] == {"seed": "7"}

    complete(scene())


@TRANSPORTS
def test_a_conversation_that_outgrows_the_context_is_cut_there_and_verified(transport: str) -> None:
    turns: list[Any] = [[call("put", '{"item":"saw"}')], ModelContextError("too long")]

    async def scene() -> None:
        async with on_stage(turns, transport=transport) as stage:
            verified = await stage.run(model="small")
            response = verified["response"]
            assert (verified["reward"], verified["items"]) == (1.0, ["saw"])
            assert response["status"] == "incomplete"
            assert response["incomplete_details"] == {"reason": "max_output_tokens"}
            assert response["metadata"] == {"stopped_by": "context_overflow"}
            assert len(response["output"]) == 2
            assert response["usage"]["total_tokens"] == 13
        async with on_stage(
            turns, transport=transport, settings={"on_context_overflow": "fail"}
        ) as stage:
            with pytest.raises(ModelContextError, match="too long"):
                await stage.run()

    complete(scene())


def test_a_prompt_that_does_not_fit_into_the_context_is_a_failure() -> None:
    async def scene() -> None:
        async with on_stage([ModelContextError("too long")]) as stage:
            with pytest.raises(ModelContextError, match="too long"):
                await stage.run()

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
def test_calls_of_one_turn_run_one_after_another_in_their_order(transport: str) -> None:
    async def scene() -> None:
        calls = [call("put", f'{{"item":"{number}"}}', str(number)) for number in range(20)]
        async with on_stage([calls, [say("Done.")]], transport=transport) as stage:
            verified = await stage.run()
            assert verified["items"] == [str(number) for number in range(20)]
            assert outputs(verified) == [f"{number} on the shelf" for number in range(1, 21)]

    complete(scene())


@TRANSPORTS
def test_calls_of_tools_that_are_marked_as_safe_run_in_parallel(transport: str) -> None:
    """And of every tool, where the agent's configuration says so."""
    cases: Iterable[tuple[str, dict[str, bool]]] = [
        ("meet", {}),
        ("gather", {"parallel_tool_calls": True}),
    ]
    for tool, settings in cases:

        async def scene() -> None:
            names = ["ann", "ben", "cleo"]
            put = call("put", '{"item":"saw"}')
            turns = [
                [*[call(tool, f'{{"name":"{name}"}}', name) for name in names], put],
                [say("")],
            ]
            storeroom = Storeroom(meeting=3)
            async with on_stage(
                turns, transport=transport, storeroom=storeroom, settings=settings
            ) as stage:
                verified = await stage.run()
                met = [f"{name} was there" for name in names]
                assert outputs(verified) == [*met, "1 on the shelf"]
                answered = verified["response"]["output"][4:7]
                assert [item["call_id"] for item in answered] == names

        complete(scene())


@TRANSPORTS
def test_the_image_of_a_tool_reaches_the_model(transport: str) -> None:
    async def scene() -> None:
        async with on_stage([[call("photograph")], [say("I see.")]], transport=transport) as stage:
            await stage.run()
            text, image = stage.model.requests[1]["input"][-1]["output"]
            assert text == {"type": "input_text", "text": "The storeroom:"}
            _, _, data = image["image_url"].partition("data:image/png;base64,")
            assert (image["type"], base64.b64decode(data)) == ("input_image", PICTURE)

    complete(scene())


@TRANSPORTS
def test_arguments_that_are_nested_too_deeply_are_told_to_the_model(transport: str) -> None:
    deep = '{"item":' * 1000 + "1" + "}" * 1000
    hidden = msgspec.json.encode({"item": "[{" * 1000 + '"}'}).decode()

    async def scene() -> None:
        turns = [[call("put", deep, "one"), call("put", hidden, "two")], [say("Sorry.")]]
        async with on_stage(turns, transport=transport) as stage:
            verified = await stage.run()
            told, put = outputs(verified)
            assert "the arguments of put are nested more than 100 levels deep" in told
            assert put == "1 on the shelf"
            assert verified["response"]["metadata"] == {"tool_calls_rejected": "1"}

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
def test_an_error_that_the_model_caused_is_shown_to_it_and_counted(transport: str) -> None:
    cases: Iterable[tuple[str, str, str]] = [
        ("refuse", "{}", "the storeroom is closed"),
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
                counted = "tool_errors" if name == "refuse" else "tool_calls_rejected"
                assert verified["response"]["metadata"] == {counted: "1"}

        complete(scene())


@TRANSPORTS
def test_an_exception_that_a_tool_did_not_mean_fails_the_rollout(transport: str) -> None:
    async def scene() -> None:
        turns = [[call("put", '{"item":"saw"}', "one"), call("crash", "{}", "two")], [say("Oh.")]]
        for settings in ({}, {"on_tool_server_error": "show"}):
            async with on_stage(turns, transport=transport, settings=settings) as stage:
                with pytest.raises(ToolError, match="KeyError: 'shelf'") as raised:
                    await stage.run()
                failure = Failure.of(raised.value)
                assert (Path(failure.file or "").name, failure.retryable) == ("stage.py", True)
                assert len(stage.model.requests) == 1
                assert stage.storeroom.verified == 0
                assert raised.value.partial is not None
                kept = msgspec.json.decode(raised.value.partial)["response"]["output"]
                assert kept[-1] == {
                    "type": "function_call_output",
                    "call_id": "one",
                    "output": "1 on the shelf",
                }

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
            jar = CookieJar(answer.cookies)  # as a caller does that keeps the last cookies only
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
