"""The wire contract: our agent with an environment and a model that share no code with ours.

Each server has a process of its own. The counterparts are stricter than they need to be: a session
cookie that is not followed, a call without its output or reasoning, or a row that changed on its
way costs the reward.
"""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookies import SimpleCookie

import pytest

from tests.cases import for_each
from tests.counterparts.answers import INPUT_TOKENS, OUTPUT_TOKENS
from tests.counterparts.processes import running
from tests.counterparts.wire import Client, Reply, begin_post, wait_until
from tests.integration.servers.wire_contract import (
    Json,
    Servers,
    ours,
    outputs,
    requests,
    row_with,
    run,
)

TOOLS = ["get_secret", "add", "meet", "motto", "broken", "hang"]


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with running("model") as url:
        yield url


@pytest.fixture(scope="module")
def our_agent(model: str) -> Iterator[Servers]:
    with (
        running("resources_server") as resources,
        ours("agent", "--resources-url", resources, "--model-url", model) as agent,
    ):
        yield Servers(agent, resources, model)


def row(*script: str, expected: str = "done", **fields: object) -> Json:
    return row_with(TOOLS, script, expected=expected, **fields)


def assert_no_reward(reply: Reply, reason: str) -> None:
    assert reply.status >= 400
    assert "reward" not in reply.json()
    assert reason in reply.text


def test_an_episode_of_several_turns_is_rewarded(our_agent: Servers) -> None:
    task = row(
        'call get_secret {"key": "door"}',
        'call add {"amount": 2}',
        'call add {"amount": 3}',
        "say I saw {outputs}",
        expected='{"total": 5}',
        secrets={"door": "4711"},
        colour="bläulich",
        ratio=0.1,
        large=2**63,
    )
    answer = run(our_agent, task)
    assert answer["reward"] == 1.0
    assert answer["row_unchanged"]
    assert {name: answer[name] for name in task} == task
    assert answer["total"] == 5
    assert [json.loads(output) for output in outputs(answer)] == [
        {"key": "door", "secret": "4711"},
        {"total": 2},
        {"total": 5},
    ]


def test_the_response_has_the_items_of_all_turns_and_their_tokens(our_agent: Servers) -> None:
    answer = run(
        our_agent,
        row('think two will do\ncall add {"amount": 2}', "say done"),
    )
    kinds = [item["type"] for item in answer["response"]["output"]]
    assert kinds == ["reasoning", "function_call", "function_call_output", "message"]
    usage = answer["response"]["usage"]
    assert usage["input_tokens"] == 2 * INPUT_TOKENS
    assert usage["output_tokens"] == 2 * OUTPUT_TOKENS
    assert usage["total_tokens"] == 2 * (INPUT_TOKENS + OUTPUT_TOKENS)


def test_parameters_reach_the_model_as_they_are_in_the_row(our_agent: Servers) -> None:
    task = row("say done marker-parameters")
    task["responses_create_params"] |= {"temperature": 0.25, "max_output_tokens": 77}
    run(our_agent, task)
    (request,) = requests(our_agent.model, "marker-parameters")
    assert json.loads(request["body"]) == task["responses_create_params"]


def test_input_may_be_a_string(our_agent: Servers) -> None:
    task = row()
    task["responses_create_params"]["input"] = 'call add {"amount": 2}\nsay done'
    answer = run(our_agent, task)
    assert answer["reward"] == 1.0
    assert answer["row_unchanged"]


def test_the_cookies_of_each_server_go_to_that_server_only(our_agent: Servers) -> None:
    script = ('call add {"amount": 1}', 'call add {"amount": 1}', "say done marker-cookies")
    run(our_agent, row(*script))
    carried = [
        {
            name: morsel.value
            for name, morsel in SimpleCookie(request["headers"].get("cookie")).items()
        }
        for request in requests(our_agent.model, "marker-cookies")
    ]
    first, *rest = carried
    assert first == {}
    assert [set(cookies) for cookies in rest] == [{"model_session"}] * 2
    assert rest[0] != rest[1]
    seed, verify = requests(our_agent.resources, "marker-cookies")
    assert seed["cookies"] == {}
    assert set(verify["cookies"]) == {"session"}


def test_episodes_at_the_same_time_keep_their_sessions_apart(our_agent: Servers) -> None:
    def play(number: int) -> Json:
        add = f'call add {{"amount": {number}}}'
        return run(our_agent, row(add, add, "say done"))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(play, range(16)))
    assert [answer["total"] for answer in answers] == [2 * number for number in range(16)]
    assert {answer["reward"] for answer in answers} == {1.0}


def test_errors_that_the_model_caused_are_outputs_that_it_sees(our_agent: Servers) -> None:
    task = row(
        'call add {"amount": "three"}',
        'call get_secret {"key": "nowhere"}',
        "call invent {}",
        "say the tools said: {outputs}",
        expected="no secret named",
    )
    answer = run(our_agent, task)
    assert answer["reward"] == 1.0
    mistyped, missing, unknown = outputs(answer)
    assert "should be an integer" in mistyped
    assert "no secret named 'nowhere'" in missing
    assert "unknown tool 'invent'" in unknown
    counts = {"tool_errors": "1", "tool_calls_rejected": "2"}
    assert answer["response"]["metadata"] == counts


def test_a_tool_whose_server_breaks_gives_no_reward(our_agent: Servers) -> None:
    reply = Client(our_agent.agent).post("/run", row("call broken {}", "say done"))
    assert_no_reward(reply, "answered the tool broken with HTTP 500: Internal Server Error")
    assert reply.json()["error"]["type"] == "tool"


def test_an_agent_can_be_told_to_show_what_a_server_breaks_on(model: str) -> None:
    with (
        running("resources_server") as resources,
        ours(
            "agent",
            *("--resources-url", resources, "--model-url", model),
            *("--settings", '{"on_tool_server_error": "show", "parallel_tool_calls": true}'),
        ) as agent,
    ):
        servers = Servers(agent, resources, model)
        answer = run(servers, row("call broken {}", "say done"))
        assert outputs(answer) == ["Internal Server Error: the tool broke"]
        assert answer["response"]["metadata"] == {"tool_errors": "1"}
        three = ['call meet {"parties": 3}', *['also meet {"parties": 3}'] * 2]
        answer = run(servers, row(*three, "say done"))
        assert [json.loads(output) for output in outputs(answer)] == [{"met": 3}] * 3


def test_the_text_of_a_tool_reaches_the_model_unchanged(our_agent: Servers) -> None:
    answer = run(our_agent, row("call motto {}", "say done"))
    assert outputs(answer) == ["Übung macht den Meister \N{EM DASH} 熟能生巧"]


@for_each("arguments", ['{"amount": ', "three", "[1]", '"1"', "1", "null"])
def test_malformed_arguments_are_answered_to_the_model(our_agent: Servers, arguments: str) -> None:
    script = (f"call add {arguments}", 'call add {"amount": 1}', "say done")
    answer = run(our_agent, row(*script))
    complaint, fine = outputs(answer)
    assert "JSON" in complaint
    assert json.loads(fine) == {"total": 1}
    assert [call["arguments"] for call in answer["tools_seen"]] == [{"amount": 1}]


def test_a_tool_that_does_not_exist_is_answered_to_the_model(our_agent: Servers) -> None:
    answer = run(our_agent, row("call unheard_of {}", "say done"))
    assert answer["reward"] == 1.0
    assert "unheard_of" in outputs(answer)[0]


@for_each("path", ["verify", "seed_session", "../_requests", "aggregate_metrics"])
def test_a_model_cannot_call_what_is_no_tool(our_agent: Servers, path: str) -> None:
    arguments = json.dumps({"reward": 1.0, "marker": f"marker-no-tool-{path}"})
    run(our_agent, row(f"call {path} {arguments}", "say done"))
    reached = requests(our_agent.resources, f'{{"reward": 1.0, "marker": "marker-no-tool-{path}')
    assert reached == []


def test_calls_of_one_turn_are_made_one_after_another(our_agent: Servers) -> None:
    calls = ['call add {"amount": 1}', *['also add {"amount": 1}'] * 19]
    answer = run(our_agent, row(*calls, "say done"))
    assert answer["reward"] == 1.0
    totals = [json.loads(output)["total"] for output in outputs(answer)]
    assert totals == list(range(1, 21))


def test_a_verifier_may_answer_without_the_row(model: str) -> None:
    with (
        running("resources_server", "--silent") as resources,
        ours("agent", "--resources-url", resources, "--model-url", model) as agent,
    ):
        answer = run(
            Servers(agent, resources, model),
            row('call add {"amount": 2}', "say done", colour="blue"),
        )
    assert answer["reward"] == 1.0
    assert answer["row_unchanged"]
    assert answer["total"] == 2


def test_a_verifier_that_fails_gives_no_reward(our_agent: Servers) -> None:
    broken = {"status": 500, "body": "the verifier broke"}
    reply = Client(our_agent.agent).post("/run", row("say done", verify_instead=broken))
    assert_no_reward(reply, "the verifier broke")


def test_a_model_that_refuses_the_request_gives_no_reward(our_agent: Servers) -> None:
    task = row("say done")
    task["responses_create_params"]["input"].append({"type": "surprise"})
    assert_no_reward(Client(our_agent.agent).post("/run", task), "not an input item")


def test_an_environment_that_is_not_there_gives_no_reward(model: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with ours("agent", "--resources-url", nobody, "--model-url", model) as agent:
        reply = Client(agent).post("/run", row("say done"))
    assert_no_reward(reply, "resources")


def test_the_loop_alone_works_in_the_session_of_its_caller(our_agent: Servers) -> None:
    task = row('call add {"amount": 4}', "say done")
    session = Client(our_agent.resources)
    session.post("/seed_session", task)
    agent = Client(our_agent.agent, session.cookies)
    response = agent.post("/v1/responses", task["responses_create_params"]).json()
    verify = Client(our_agent.resources, agent.cookies)
    answer = verify.post("/verify", {**task, "response": response}).json()
    assert answer["reward"] == 1.0
    assert answer["total"] == 4


def test_metrics_come_from_the_environment(our_agent: Servers) -> None:
    rows = [{"reward": 1.0, "_ng_task_index": 0}, {"reward": 0.0, "_ng_task_index": 0}]
    body = {"verify_responses": rows}
    answer = Client(our_agent.agent).post("/aggregate_metrics", body).json()
    assert answer == Client(our_agent.resources).post("/aggregate_metrics", body).json()
    assert answer["agent_metrics"]["counterpart/rows"] == 2


def test_a_caller_that_leaves_cancels_the_model_call(our_agent: Servers) -> None:
    watch = Client(our_agent.model)
    before = watch.get("/_stats")
    task = row('call add {"amount": 1}', "wait 300", "say late")
    with begin_post(our_agent.agent, "/run", task):
        wait_until(lambda: watch.get("/_stats")["in_flight"] == before["in_flight"] + 1)
    wait_until(lambda: watch.get("/_stats")["disconnects"] == before["disconnects"] + 1)
    assert watch.get("/_stats")["in_flight"] == before["in_flight"]


def test_a_caller_that_leaves_cancels_the_tool_call(our_agent: Servers) -> None:
    marker = '{"why": "marker-leaves"}'

    def hanging() -> list[Json]:
        found = requests(our_agent.resources, marker)
        return [request for request in found if request["path"] == "/hang"]

    with begin_post(our_agent.agent, "/run", row(f"call hang {marker}")):
        wait_until(hanging)
        assert not hanging()[0]["left"]
    wait_until(lambda: hanging()[0]["left"])
