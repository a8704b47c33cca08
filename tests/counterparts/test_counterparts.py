"""The counterparts work with each other: where a contract test fails, they are not to blame."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.cases import for_each
from tests.counterparts.answers import INPUT_TOKENS, OUTPUT_TOKENS
from tests.counterparts.processes import ROOT, running
from tests.counterparts.wire import PATIENCE, Client, begin_post, wait_until

Json = dict[str, Any]


class Servers(NamedTuple):
    agent: str
    resources: str
    model: str


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with (
        running("resources_server") as resources,
        running("model") as model,
        running("agent", "--resources-url", resources, "--model-url", model) as agent,
    ):
        yield Servers(agent, resources, model)


def row(script: str, expected: str = "done", **fields: object) -> Json:
    params = {"input": [{"role": "user", "content": script}], "tools": []}
    return {"responses_create_params": params, "expected": expected, **fields}


def run(servers: Servers, task: Json) -> Json:
    reply = Client(servers.agent).post("/run", task)
    assert reply.status == 200, reply.text
    answer: Json = reply.json()
    return answer


def outputs(answer: Json) -> list[str]:
    items = answer["response"]["output"]
    return [item["output"] for item in items if item["type"] == "function_call_output"]


def open_session(servers: Servers, task: Json) -> Client:
    client = Client(servers.resources)
    assert client.post("/seed_session", task).status == 200
    return client


def responded(text: str, *calls: Json) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"output": [*calls, {"type": "message", "content": content}]}


def test_an_episode_of_several_turns_is_rewarded_and_echoes_its_row(servers: Servers) -> None:
    script = (
        'call get_secret {"key": "door"}\ncall add {"amount": 2}\ncall add {"amount": 3}\n'
        "say I saw {outputs}"
    )
    task = row(script, expected='{"total": 5}', secrets={"door": "4711"}, colour="blue")
    answer = run(servers, task)
    assert answer["reward"] == 1.0
    assert answer["row_unchanged"]
    assert answer["total"] == 5
    assert {name: answer[name] for name in task} == task
    assert [json.loads(output) for output in outputs(answer)] == [
        {"key": "door", "secret": "4711"},
        {"total": 2},
        {"total": 5},
    ]
    assert answer["response"]["usage"]["total_tokens"] == 4 * (INPUT_TOKENS + OUTPUT_TOKENS)


def test_a_wrong_final_text_earns_nothing(servers: Servers) -> None:
    assert run(servers, row("say no idea", expected="4711"))["reward"] == 0.0


def test_reasoning_is_carried_along_with_its_call(servers: Servers) -> None:
    answer = run(servers, row('think two is enough\ncall add {"amount": 2}\nsay {outputs}', "2"))
    kinds = [item["type"] for item in answer["response"]["output"]]
    assert kinds == ["reasoning", "function_call", "function_call_output", "message"]


def test_tool_errors_and_malformed_arguments_are_tool_outputs(servers: Servers) -> None:
    script = (
        'call broken {}\ncall add {"amount": "three"}\ncall unheard_of {}\ncall add {\'amount\'\n'
        "call motto {}\nsay done"
    )
    answer = run(servers, row(script))
    assert answer["reward"] == 1.0
    broken, mistyped, unknown, malformed, motto = outputs(answer)
    assert "the tool broke" in broken
    assert "should be an integer" in mistyped
    assert "Not Found" in unknown
    assert "not valid JSON" in malformed
    assert motto == "Übung macht den Meister \N{EM DASH} 熟能生巧"
    assert [call["name"] for call in answer["tools_seen"]] == ["broken", "add", "motto"]


def test_calls_of_one_turn_are_made_at_the_same_time(servers: Servers) -> None:
    script = (
        'call meet {"parties": 3}\nalso meet {"parties": 3}\nalso meet {"parties": 3}\nsay done'
    )
    answer = run(servers, row(script))
    assert answer["reward"] == 1.0
    assert outputs(answer) == ['{"met": 3}'] * 3


def test_the_loop_alone_works_in_the_session_of_the_caller(servers: Servers) -> None:
    task = row('call add {"amount": 4}\nsay total: {outputs}', expected='{"total": 4}')
    session = open_session(servers, task)
    agent = Client(servers.agent, session.cookies)
    response = agent.post("/v1/responses", task["responses_create_params"]).json()
    session.cookies.update(agent.cookies)
    answer = session.post("/verify", {**task, "response": response}).json()
    assert answer["reward"] == 1.0


def test_metrics_are_forwarded(servers: Servers) -> None:
    rows = [{"reward": 1.0, "_ng_task_index": 0}, {"reward": 0.0, "_ng_task_index": 0}]
    answer = Client(servers.agent).post("/aggregate_metrics", {"verify_responses": rows}).json()
    assert answer["agent_metrics"] == {"mean/reward": 0.5, "counterpart/rows": 2}
    assert answer["group_level_metrics"] == [{"_ng_task_index": 0, "mean/reward": 0.5}]


def test_a_verifier_that_fails_is_no_reward(servers: Servers) -> None:
    task = row("say done", verify_instead={"status": 500, "body": "the verifier broke"})
    reply = Client(servers.agent).post("/run", task)
    assert reply.status == 502
    assert "the verifier broke" in reply.text


def test_the_silent_verifier_answers_without_the_row() -> None:
    with running("resources_server", "--silent") as resources:
        client = Client(resources)
        task = row("say done", colour="blue")
        client.post("/seed_session", task)
        answer = client.post("/verify", {**task, "response": responded("done")}).json()
    assert answer["reward"] == 1.0
    assert answer["row_unchanged"]
    assert not {"responses_create_params", "response", "colour"} & answer.keys()


def test_without_a_session_there_is_no_tool_and_no_verdict(servers: Servers) -> None:
    stranger = Client(servers.resources)
    assert stranger.post("/add", {"amount": 1}).status == 401
    assert stranger.post("/verify", {**row(""), "response": responded("done")}).status == 401
    invented = Client(servers.resources, {"session": "f00d"})
    assert invented.post("/add", {"amount": 1}).status == 401


def test_a_caller_that_does_not_follow_the_cookie_gets_no_verdict(servers: Servers) -> None:
    task = row("")
    session = open_session(servers, task)
    first = dict(session.cookies)
    session.post("/add", {"amount": 1})
    assert session.cookies != first
    deaf = Client(servers.resources, first)
    reply = deaf.post("/verify", {**task, "response": responded("done")})
    assert reply.status == 401
    assert "stale" in reply.text


def test_the_verifier_notices_calls_that_reached_no_tool(servers: Servers) -> None:
    task = row("")
    call = {"type": "function_call", "name": "add", "arguments": '{"amount": 1}'}
    session = open_session(servers, task)
    answer = session.post("/verify", {**task, "response": responded("done", call)}).json()
    assert answer["answered"]
    assert not answer["calls_match"]
    assert answer["reward"] == 0.0


def test_requests_are_recorded_as_they_were(servers: Servers) -> None:
    session = open_session(servers, row("", marker="recorded"))
    carried = dict(session.cookies)
    session.post("/add", {"amount": 41})
    seed, call = session.get("/_requests")[-2:]
    assert (seed["path"], seed["status"], seed["cookies"]) == ("/seed_session", 200, {})
    assert json.loads(seed["body"])["marker"] == "recorded"
    assert (call["path"], call["cookies"]) == ("/add", carried)
    assert json.loads(call["body"]) == {"amount": 41}
    assert call["headers"]["content-type"] == "application/json"


def test_a_caller_that_leaves_a_tool_is_noticed(servers: Servers) -> None:
    session = open_session(servers, row(""))

    def last_request() -> Json:
        request: Json = session.get("/_requests")[-1]
        return request

    with begin_post(servers.resources, "/hang", {}, session.cookies):
        wait_until(lambda: last_request()["path"] == "/hang")
        assert not last_request()["left"]
    wait_until(lambda: last_request()["left"])


def test_a_caller_that_leaves_the_model_is_noticed(servers: Servers) -> None:
    model = Client(servers.model)
    before = model.get("/_stats")
    with begin_post(servers.model, "/v1/responses", {"input": "wait 300\nsay late"}):
        wait_until(lambda: model.get("/_stats")["in_flight"] == before["in_flight"] + 1)
    wait_until(lambda: model.get("/_stats")["disconnects"] == before["disconnects"] + 1)
    assert model.get("/_stats")["in_flight"] == before["in_flight"]


def test_chat_completions_play_the_same_script(servers: Servers) -> None:
    model = Client(servers.model)
    messages: list[Json] = [{"role": "user", "content": 'call add {"amount": 1}\nsay {outputs}'}]
    first = model.post("/v1/chat/completions", {"messages": messages}).json()["choices"][0]
    assert first["finish_reason"] == "tool_calls"
    (call,) = first["message"]["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": '{"amount": 1}'}
    messages += [
        first["message"],
        {"role": "tool", "tool_call_id": call["id"], "content": "one"},
    ]
    last = model.post("/v1/chat/completions", {"messages": messages}).json()["choices"][0]
    assert (last["finish_reason"], last["message"]["content"]) == ("stop", "one")


def test_the_model_is_listed(servers: Servers) -> None:
    assert [model["id"] for model in Client(servers.model).get("/v1/models")["data"]] == [
        "counterpart"
    ]


CALL = {"type": "function_call", "call_id": "call_0", "name": "add", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_0", "output": "1"}


@for_each(
    ("items", "complaint"),
    [
        ([CALL], "No tool output found"),
        ([OUTPUT], "No tool call found"),
        ([CALL, OUTPUT], "without its required reasoning item"),
        ([{"type": "surprise"}], "not an input item"),
    ],
)
def test_the_model_refuses_a_conversation_with_something_missing(
    servers: Servers, items: list[Json], complaint: str
) -> None:
    asked = {"role": "user", "content": "think first\ncall add {}\nsay done"}
    reply = Client(servers.model).post("/v1/responses", {"input": [asked, *items]})
    assert reply.status == 400
    assert complaint in reply.json()["error"]["message"]


def test_the_bench_model_serves_many_connections_at_once() -> None:
    crowd = 500
    request = b"POST /v1/responses HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"

    async def ask_together(port: int) -> list[bytes]:
        opened = await asyncio.gather(
            *(asyncio.open_connection("127.0.0.1", port) for _ in range(crowd))
        )
        for _, writer in opened:
            writer.write(request)
        heads = await asyncio.gather(*(reader.readuntil(b"\r\n") for reader, _ in opened))
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in opened))
        return heads

    with running("model", "--mode", "bench", "--latency", "0.2") as url:
        port = urlsplit(url).port
        assert port
        assert asyncio.run(ask_together(port)) == [b"HTTP/1.1 200 OK\r\n"] * crowd
        stats = Client(url).get("/_stats")
    assert (stats["requests"], stats["in_flight"], stats["disconnects"]) == (crowd, 0, 0)


def test_the_bare_loop_collects_from_the_bench_model(tmp_path: Path) -> None:
    questions, lines = tmp_path / "questions.jsonl", tmp_path / "lines.jsonl"
    params = {"input": [{"role": "user", "content": "What is the weather in Berlin?"}]}
    questions.write_text(60 * (json.dumps({"responses_create_params": params}) + "\n"))
    with running("model", "--mode", "bench") as url:
        subprocess.run(
            [
                *(sys.executable, "-m", "benchmarks.bare_loop", "--url", f"{url}/v1"),
                *("--input", questions, "--limit", "50", "--concurrency", "8", "--output", lines),
            ],
            cwd=ROOT,
            check=True,
            timeout=PATIENCE,
        )
        assert Client(url).get("/_stats")["requests"] == 100
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["reward"] for row in rows] == [1.0] * 50
    assert [item["type"] for item in rows[0]["response"]["output"]] == [
        "function_call",
        "function_call_output",
        "message",
    ]


def test_an_agent_that_keeps_only_the_last_cookies_gets_its_verdict_here(servers: Servers) -> None:
    urls = ("--resources-url", servers.resources, "--model-url", servers.model)
    script = 'call add {"amount": 2}\nalso add {"amount": 3}\ncall proverb {}\nsay done'
    with running("agent", "--in-turn", *urls) as agent:
        answer = run(servers._replace(agent=agent), row(script))
    assert (answer["reward"], answer["total"]) == (1.0, 5)
    assert outputs(answer)[:2] == ['{"total": 2}', '{"total": 5}']
    assert outputs(answer)[2] == r'"Haste makes waste,\n\"they\" say"'


def test_the_strict_server_refuses_what_is_not_of_the_responses_api() -> None:
    fine = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    wrong: list[tuple[str, Json]] = [
        ("status", {"status": "truncated"}),
        ("reason", {"status": "incomplete", "incomplete_details": {"reason": "max_steps"}}),
        ("metadata", {"metadata": {"tool_errors": 1}}),
        ("output", {"output": [{"type": "function_call_output", "call_id": "c", "output": []}]}),
    ]
    with running("resources_server", "--strict") as url:
        client = Client(url)
        seeded = {**row(""), "responses_create_params": {"input": "", "seed": 1}}
        assert client.post("/seed_session", seeded).status == 422
        assert client.post("/seed_session", row("")).status == 200
        for place, fields in wrong:
            reply = client.post("/verify", {**row(""), "response": {"output": [], **fields}})
            assert (reply.status, place in reply.text) == (422, True), reply.text
        accepted = {**row("", expected=""), "response": {"output": [], **fine}}
        assert client.post("/verify", accepted).status == 200
        assert client.get("/") == {"status": "ok"}
        assert client.send("GET", "/healthz").status == 404
