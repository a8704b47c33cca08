"""The wire contract: our environment under an agent that shares no code with ours."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cases import for_each
from tests.counterparts.processes import running
from tests.counterparts.wire import Client, begin_post, wait_until
from tests.integration.servers.wire_contract import (
    Json,
    Servers,
    ours,
    outputs,
    row_with,
    run,
)

TOOLS = ["add", "refuse", "fail", "meet"]


@pytest.fixture(scope="module")
def our_environment() -> Iterator[Servers]:
    with (
        running("model") as model,
        ours("resources") as resources,
        running("agent", "--resources-url", resources, "--model-url", model) as agent,
    ):
        yield Servers(agent, resources, model)


def row(*script: str, expected_total: int = 0, **fields: object) -> Json:
    return row_with(TOOLS, script, expected_total=expected_total, **fields)


def test_an_episode_of_several_turns_is_rewarded(our_environment: Servers) -> None:
    task = row(
        'call add {"amount": 2}',
        'call add {"amount": 3}',
        "say I saw {outputs}",
        expected_total=5,
        colour="bläulich",
        ratio=0.1,
        large=2**63,
        _ng_task_index=3,
    )
    answer = run(our_environment, task)
    assert (answer["reward"], answer["success"], answer["total"]) == (1.0, True, 5)
    assert {name: answer[name] for name in task} == task
    assert [json.loads(output) for output in outputs(answer)] == [{"total": 2}, {"total": 5}]
    assert answer["said"].startswith("I saw ")


def test_the_verifier_echoes_the_response_it_was_given(our_environment: Servers) -> None:
    answer = run(our_environment, row('call add {"amount": 2}', "say done"))
    assert answer["reward"] == 0.0
    kinds = [item["type"] for item in answer["response"]["output"]]
    assert kinds == ["function_call", "function_call_output", "message"]
    assert answer["response"]["model"] == "counterpart"


def test_episodes_at_the_same_time_keep_their_sessions_apart(our_environment: Servers) -> None:
    def play(number: int) -> Json:
        add = f'call add {{"amount": {number}}}'
        return run(our_environment, row(add, add, "say done", expected_total=2 * number))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(play, range(16)))
    assert [answer["total"] for answer in answers] == [2 * number for number in range(16)]
    assert {answer["reward"] for answer in answers} == {1.0}


def test_what_a_tool_rejects_is_text_for_the_model(our_environment: Servers) -> None:
    task = row(
        'call refuse {"reason": "no such city"}',
        'call add {"amount": "three"}',
        'call add {"amount": 1, "surprise": 2}',
        "call add {'amount'",
        "call unheard_of {}",
        "say done",
    )
    rejected, mistyped, surprised, malformed, unknown = outputs(run(our_environment, task))
    assert "no such city" in rejected
    assert "amount" in mistyped
    assert "surprise" in surprised
    assert "not valid JSON" in malformed
    assert "unheard_of" in unknown


def test_a_rollout_in_which_a_tool_broke_gets_no_reward(our_environment: Servers) -> None:
    """Although this agent shows the answer to the model and goes on."""
    reply = Client(our_environment.agent).post("/run", row("call fail {}", "say done"))
    assert reply.status == 502
    assert "the drawer is stuck" in reply.text
    assert '"reward"' not in reply.text


def test_a_rollout_in_which_a_tool_broke_gets_no_reward_also_without_state(
    our_environment: Servers,
) -> None:
    """Whether the agent keeps all cookies or the last ones only."""
    with ours("stateless") as resources:
        for options in ((), ("--in-turn",)):
            urls = ("--resources-url", resources, "--model-url", our_environment.model)
            with running("agent", *urls, *options) as agent:
                client = Client(agent)
                reply = client.post("/run", row("call fail {}", "call say {}", "say done"))
                assert (reply.status, '"reward"' in reply.text) == (502, False)
                assert "the drawer is stuck" in reply.text
                assert client.post("/run", row("call say {}", "say done")).json()["reward"] == 1.0


def test_calls_of_tools_without_state_are_served_at_the_same_time(our_environment: Servers) -> None:
    three = ['call meet {"parties": 3}', *['also meet {"parties": 3}'] * 2]
    answer = run(our_environment, row(*three, "say done"))
    assert outputs(answer) == ["met 3"] * 3


def test_calls_that_arrive_at_the_same_time_use_the_state_in_turn(our_environment: Servers) -> None:
    calls = ['call add {"amount": 1}', *['also add {"amount": 1}'] * 19]
    answer = run(our_environment, row(*calls, "say done", expected_total=20))
    assert (answer["reward"], answer["total"]) == (1.0, 20)


def test_an_agent_that_keeps_the_last_cookies_only_keeps_its_session(
    our_environment: Servers,
) -> None:
    """As the agent of NeMo Gym does. Every answer repeats the cookie, errors included."""
    urls = ("--resources-url", our_environment.resources, "--model-url", our_environment.model)
    script = (
        'call add {"amount": 2}',
        'also refuse {"reason": "no"}',
        'also add {"amount": "three"}',
        "call unheard_of {}",
        "call recall {}",
        'call add {"amount": 3}',
        "say done",
    )
    with running("agent", *urls, "--in-turn") as agent:
        answer = run(our_environment._replace(agent=agent), row(*script, expected_total=5))
    assert (answer["reward"], answer["total"]) == (1.0, 5)


def test_the_cookie_of_a_session_is_on_every_answer_until_the_verdict(
    our_environment: Servers,
) -> None:
    session = Client(our_environment.resources, replaces=True)
    session.post("/seed_session", row())
    issued = dict(session.cookies)
    for path, body in (("/fail", {}), ("/verify", []), ("/verify", {}), ("/nowhere", {})):
        reply = session.post(path, body)
        assert reply.status >= 400
        assert reply.cookies == issued
    assert session.send("GET", "/healthz").cookies == issued


@for_each(
    ("path", "arguments", "status"),
    [
        ("/refuse", {"reason": "no"}, 400),
        ("/fail", {}, 502),
        ("/add", {"amount": "three"}, 422),
        ("/unheard_of", {}, 404),
    ],
)
def test_errors_of_tools_have_the_status_that_says_whose_fault_it_is(
    our_environment: Servers, path: str, arguments: Json, status: int
) -> None:
    session = Client(our_environment.resources)
    session.post("/seed_session", row())
    assert session.post(path, arguments).status == status


def test_a_session_needs_the_cookie_that_was_set(our_environment: Servers) -> None:
    session = Client(our_environment.resources)
    session.post("/seed_session", row())
    ((name, value),) = session.cookies.items()
    changed = value[:-1] + ("0" if value[-1] != "0" else "1")
    for cookies in ({}, {name: changed}, {name: "f00d"}, {"session": value}):
        reply = Client(our_environment.resources, cookies).post("/add", {"amount": 1})
        assert reply.status >= 400
    assert session.post("/add", {"amount": 1}).json() == {"total": 1}


def test_other_cookies_do_not_matter(our_environment: Servers) -> None:
    session = Client(our_environment.resources, {"theme": "dark", "session": "someone-elses"})
    session.post("/seed_session", row())
    assert session.post("/add", {"amount": 1}).json() == {"total": 1}


def test_a_session_ends_when_it_is_verified(our_environment: Servers) -> None:
    task = row()
    session = Client(our_environment.resources)
    session.post("/seed_session", task)
    cookies = dict(session.cookies)
    assert session.post("/verify", {**task, "response": {"output": []}}).status == 200
    late = Client(our_environment.resources, cookies)
    assert late.post("/add", {"amount": 1}).status >= 400


def test_a_verifier_that_raises_gives_no_reward(our_environment: Servers) -> None:
    reply = Client(our_environment.agent).post("/run", row("say please break"))
    assert reply.status == 502
    assert "the scales are broken" in reply.text
    assert '"reward"' not in reply.text


def test_a_row_of_the_wrong_shape_is_refused(our_environment: Servers) -> None:
    task = row("say done")
    del task["expected_total"]
    reply = Client(our_environment.agent).post("/run", task)
    assert reply.status == 502
    assert "expected_total" in reply.text


def test_metrics_are_given_for_all_rows_and_for_each_task(our_environment: Servers) -> None:
    rows = [
        {"reward": reward, "_ng_task_index": index, "_ng_rollout_index": repeat}
        for index, rewards in enumerate([[1.0, 0.0], [1.0, 1.0]])
        for repeat, reward in enumerate(rewards)
    ]
    reply = Client(our_environment.agent).post("/aggregate_metrics", {"verify_responses": rows})
    assert reply.status == 200, reply.text
    metrics = reply.json()
    assert {"agent_metrics", "key_metrics", "group_level_metrics"} <= metrics.keys()
    assert 0.75 in metrics["agent_metrics"].values()
    assert len(metrics["group_level_metrics"]) == 2


def test_a_caller_that_leaves_cancels_the_tool(our_environment: Servers) -> None:
    watch = Client(our_environment.resources)

    def recalled(name: str) -> int:
        count: int = watch.post("/recall", {}).json()[name]
        return count

    pondering, cancelled = recalled("pondering"), recalled("cancelled")
    with begin_post(our_environment.resources, "/ponder", {}):
        wait_until(lambda: recalled("pondering") == pondering + 1)
        assert recalled("cancelled") == cancelled
    wait_until(lambda: recalled("cancelled") == cancelled + 1)
