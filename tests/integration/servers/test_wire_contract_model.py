"""The wire contract: our model servers between an agent and an endpoint that share no code."""

import json
from collections.abc import Iterator

import pytest

from tests.counterparts.answers import INPUT_TOKENS, OUTPUT_TOKENS
from tests.counterparts.processes import running
from tests.counterparts.wire import Client, begin_post, wait_until
from tests.integration.servers.served import API_KEY, MODEL
from tests.integration.servers.wire_contract import (
    Json,
    Servers,
    ours,
    outputs,
    requests,
    row_with,
    run,
)

TOOLS = ["get_secret", "add", "meet"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with running("model") as url:
        yield url


@pytest.fixture(scope="module", params=["openai_model", "vllm_model"])
def our_model(request: pytest.FixtureRequest, endpoint: str) -> Iterator[Servers]:
    with (
        ours(request.param, "--model-url", endpoint) as model,
        running("resources_server") as resources,
        running("agent", "--resources-url", resources, "--model-url", model) as agent,
    ):
        yield Servers(agent, resources, model)


def row(*script: str, expected: str = "done", **fields: object) -> Json:
    return row_with(TOOLS, script, expected=expected, **fields)


def test_an_episode_of_several_turns_is_rewarded(our_model: Servers) -> None:
    task = row(
        'call get_secret {"key": "door"}',
        'call add {"amount": 2}',
        'call add {"amount": 3}',
        "say I saw {outputs}",
        expected='{"total": 5}',
        secrets={"door": "Tür 4711"},
    )
    answer = run(our_model, task)
    assert answer["reward"] == 1.0
    assert answer["total"] == 5
    assert json.loads(outputs(answer)[0])["secret"] == "Tür 4711"
    usage = answer["response"]["usage"]
    assert usage["total_tokens"] == 4 * (INPUT_TOKENS + OUTPUT_TOKENS)


def test_calls_of_one_turn_stay_in_one_turn(our_model: Servers) -> None:
    three = ['call meet {"parties": 3}', *['also meet {"parties": 3}'] * 2]
    answer = run(our_model, row(*three, "say done"))
    assert answer["reward"] == 1.0
    kinds = [item["type"] for item in answer["response"]["output"]]
    assert kinds == ["function_call"] * 3 + ["function_call_output"] * 3 + ["message"]


def test_malformed_arguments_arrive_as_the_model_wrote_them(our_model: Servers) -> None:
    answer = run(our_model, row("call add {'amount': ", 'call add {"amount": 1}', "say done"))
    assert answer["reward"] == 1.0
    call = answer["response"]["output"][0]
    assert call["arguments"].strip() == "{'amount':"
    assert "not valid JSON" in outputs(answer)[0]


def test_the_endpoint_gets_its_own_model_name_and_key_and_no_cookies(
    our_model: Servers, endpoint: str
) -> None:
    task = row("say done marker-endpoint")
    task["responses_create_params"] |= {"model": "whatever", "temperature": 0.25}
    run(our_model, task)
    request = requests(endpoint, "marker-endpoint")[-1]
    body = json.loads(request["body"])
    assert body["model"] == MODEL
    assert body["temperature"] == 0.25
    assert [_name(tool) for tool in body["tools"]] == TOOLS
    assert request["headers"]["authorization"] == f"Bearer {API_KEY}"
    assert "cookie" not in request["headers"]


def _name(tool: Json) -> object:
    return tool.get("function", tool)["name"]


def test_the_other_api_and_the_list_of_models_are_passed_on(our_model: Servers) -> None:
    client = Client(our_model.model)
    asked = {"messages": [{"role": "user", "content": "say hello"}]}
    reply = client.post("/v1/chat/completions", asked).json()
    assert reply["choices"][0]["message"]["content"] == "hello"
    assert [model["id"] for model in client.get("/v1/models")["data"]] == ["counterpart"]


def test_a_request_that_the_endpoint_refuses_is_refused_and_not_repeated(
    our_model: Servers, endpoint: str
) -> None:
    before = len(requests(endpoint, "marker-refused"))
    output = {"type": "function_call_output", "call_id": "never", "output": "marker-refused"}
    asked = [{"role": "user", "content": "say done"}, output]
    reply = Client(our_model.model).post("/v1/responses", {"input": asked})
    assert reply.status == 400
    assert "No tool call found for function call output never." in reply.text
    assert len(requests(endpoint, "marker-refused")) == before + 1


def test_a_caller_that_leaves_cancels_the_call_at_the_endpoint(
    our_model: Servers, endpoint: str
) -> None:
    watch = Client(endpoint)
    before = watch.get("/_stats")
    asked = {"input": [{"role": "user", "content": "wait 300\nsay late"}]}
    with begin_post(our_model.model, "/v1/responses", asked):
        wait_until(lambda: watch.get("/_stats")["in_flight"] == before["in_flight"] + 1)
    wait_until(lambda: watch.get("/_stats")["disconnects"] == before["disconnects"] + 1)


def test_a_caller_that_leaves_our_agent_cancels_the_call_behind_our_model(
    our_model: Servers, endpoint: str
) -> None:
    watch = Client(endpoint)
    before = watch.get("/_stats")
    task = row('call add {"amount": 1}', "wait 300", "say late")
    behind = ("--resources-url", our_model.resources, "--model-url", our_model.model)
    with ours("agent", *behind) as agent:
        with begin_post(agent, "/run", task):
            wait_until(lambda: watch.get("/_stats")["in_flight"] == before["in_flight"] + 1)
        wait_until(lambda: watch.get("/_stats")["disconnects"] == before["disconnects"] + 1)
