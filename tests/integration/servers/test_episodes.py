"""An agent's episode over both transports: what it is given, what it answers, how it fails."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from aiohttp import web

from rollgym.records import (
    AgentError,
    EnvironmentSessionError,
    Failure,
    FailureKind,
    ModelMalformedError,
    RolloutError,
    Span,
    TaskError,
    ToolError,
    VerifierError,
)
from rollgym.servers import Answer, CookieJar, Episode, Http, Request, ServerClient, http_session
from rollgym.servers.client import connect
from rollgym.servers.report import PHASES_HEADER
from rollgym.servers.spans import MOST_SPANS, SPANS_HEADER, decode_spans
from tests.cases import for_each
from tests.integration.servers.transports import Clients, Transport, over_both, reach
from tests.integration.servers.workshop import (
    WORDS,
    Courier,
    Json,
    make,
    open_shop,
    said,
    seeded,
    task,
)


def run(transport: Transport, *steps: Sequence[object], says: str = "", **fields: Any) -> Json:
    async def scenario() -> Json:
        async with open_shop(transport) as shop:
            return await shop.run(task(*steps, says=says, **fields))

    return asyncio.run(scenario())


def failed(transport: Transport, row: Json) -> RolloutError:
    async def scenario() -> RolloutError:
        async with open_shop(transport) as shop:
            with pytest.raises(RolloutError) as raised:
                await shop.run(row)
            return raised.value

    return asyncio.run(scenario())


@over_both
def test_an_episode_ends_with_the_verified_row(transport: Transport) -> None:
    verified = run(
        transport,
        ["tool", "add", {"amount": 2}],
        ["model"],
        ["tool", "add", {"amount": 3}],
        says=WORDS,
        expected=5,
        colour=WORDS,
    )
    assert (verified["reward"], verified["success"], verified["total"]) == (1.0, True, 5)
    assert (verified["said"], verified["colour"]) == (WORDS, WORDS)
    kinds = [item["type"] for item in verified["response"]["output"]]
    assert kinds == ["function_call_output", "message", "function_call_output", "message"]
    assert verified["response"]["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }


@over_both
def test_what_tools_say_is_text_for_the_model(transport: Transport) -> None:
    verified = run(
        transport,
        ["tool", "echo", {"words": WORDS}],
        ["tool", "add", {"amount": 1}],
        ["tool", "reject", {"reason": WORDS}],
        ["tool", "add", {}],
        ["tool", "paint", {}],
        expected=1,
    )
    assert verified["reward"] == 1.0
    outputs = [item["output"] for item in verified["response"]["output"][:-1]]
    assert outputs[:2] == [WORDS, '{"total":1}']
    messages = [json.loads(output)["error"]["message"] for output in outputs[2:]]
    assert messages[0] == WORDS
    assert messages[1].startswith("wrong arguments for add: amount: ")
    assert messages[2].startswith("workshop has no /paint")
    assert verified["response"]["metadata"] == {"tool_errors": "2", "tool_calls_rejected": "1"}


@over_both
def test_tools_are_called_side_by_side(transport: Transport) -> None:
    verified = run(transport, ["tools", "meet", {}, 3])
    assert [item.get("output") for item in verified["response"]["output"][:3]] == ["met"] * 3


def timed(transport: Transport, *steps: Sequence[object]) -> tuple[Json, tuple[Span, ...]]:
    """The phases and spans of an episode."""

    async def scenario() -> Answer:
        async with open_shop(transport) as shop:
            return await shop.clients.client("agent").post("/run", task(*steps))

    headers = asyncio.run(scenario()).headers
    return json.loads(headers[PHASES_HEADER]), decode_spans(headers[SPANS_HEADER])


@over_both
def test_the_seconds_of_each_phase_are_told(transport: Transport) -> None:
    phases, spans = timed(transport, ["model"], ["tool", "echo", {"words": "hi"}], ["model"])
    assert list(phases) == ["seed", "model", "tools", "verify"]
    assert all(seconds > 0 for seconds in phases.values())
    assert [(span.phase, span.label) for span in spans] == [
        ("seed", ""),
        ("model", ""),
        ("tools", "echo"),
        ("model", ""),
        ("verify", ""),
    ]
    for one, next_one in pairwise(spans):
        assert one.start + one.seconds <= next_one.start + 1e-5
    for phase, seconds in phases.items():
        assert sum(each.seconds for each in spans if each.phase == phase) == pytest.approx(
            seconds, abs=1e-5
        )


@over_both
def test_calls_side_by_side_have_spans_that_overlap(transport: Transport) -> None:
    _, spans = timed(transport, ["tools", "meet", {}, 3])
    calls = [span for span in spans if span.label == "meet"]
    assert len(calls) == 3
    assert max(call.start for call in calls) < min(call.start + call.seconds for call in calls)


@over_both
def test_of_many_calls_the_first_are_told_and_all_are_summed_up(transport: Transport) -> None:
    phases, spans = timed(transport, *[["tool", "echo", {"words": "hi"}]] * (MOST_SPANS + 20))
    assert MOST_SPANS // 2 < len(spans) <= MOST_SPANS
    assert {span.phase for span in spans} == {"seed", "tools"}
    told = sum(span.seconds for span in spans if span.phase == "tools")
    assert told < phases["tools"]


# Failures.


@over_both
@for_each(
    ("row", "complaint"),
    [
        ({}, "the row has no `responses_create_params`"),
        ({"responses_create_params": []}, "field 'responses_create_params'"),
        (task(expected="many"), "the row does not match `Order` of workshop: expected"),
    ],
)
def test_a_row_that_cannot_be_run_is_a_failure_of_the_task(
    transport: Transport, row: Json, complaint: str
) -> None:
    error = failed(transport, row)
    assert isinstance(error, TaskError)
    assert complaint in str(error)
    assert not Failure.of(error).retryable


@over_both
@for_each("body", [b"", b"[]", b"\xff"])
def test_what_is_no_row_is_a_failure_of_the_task(transport: Transport, body: bytes) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            with pytest.raises(TaskError, match="the row is not a JSON object"):
                await shop.clients.client("agent").call("/run", body, error=ToolError)

    asyncio.run(scenario())


@over_both
@for_each(
    ("row", "error", "detail"),
    [
        (task(["break"]), AgentError, "LookupError: lost the map"),
        (task(["leave rubbish"]), AgentError, "TypeError: Encoding objects of type object"),
        (task(wish="no seed"), EnvironmentSessionError, "OSError: no bench is free"),
        (task(["tool", "give_up", {}]), ToolError, "the saw is gone"),
        (task(["tool", "fail", {}]), ToolError, "KeyError: 'the drawer is stuck'"),
        (task(["tools", "give_up", {}, 3]), ToolError, "the saw is gone"),
        (task(says="raise"), VerifierError, "RuntimeError: the scales are broken"),
        (task(says="nan"), VerifierError, "the verifier gave nan as reward"),
    ],
)
def test_a_failure_names_the_boundary_that_broke(
    transport: Transport, row: Json, error: type[RolloutError], detail: str
) -> None:
    raised = failed(transport, row)
    assert type(raised) is error
    assert str(raised).startswith(detail)


@over_both
def test_a_failure_keeps_what_there_was_of_the_episode(transport: Transport) -> None:
    error = failed(
        transport, task(["model"], ["tool", "add", {"amount": 1}], ["tool", "give_up", {}])
    )
    assert error.partial is not None
    response = json.loads(error.partial)["response"]
    assert response["status"] == "incomplete"
    assert [item["type"] for item in response["output"]] == ["message", "function_call_output"]
    assert response["usage"]["total_tokens"] == 5


@over_both
def test_a_failure_keeps_when_its_calls_were_with_the_one_that_failed(transport: Transport) -> None:
    error = failed(transport, task(["model"], ["tool", "give_up", {}]))
    assert error.partial is not None
    kept = json.loads(error.partial)
    assert list(kept["phases"]) == ["seed", "model", "tools"]
    spans = decode_spans(json.dumps(kept["spans"]))
    assert [(span.phase, span.label) for span in spans] == [
        ("seed", ""),
        ("model", ""),
        ("tools", "give_up"),
    ]


@over_both
def test_a_failure_before_anything_was_said_keeps_its_times(transport: Transport) -> None:
    kept = json.loads(failed(transport, task(["break"])).partial or b"{}")
    assert (sorted(kept), list(kept["phases"])) == (["phases", "spans"], ["seed"])


@over_both
def test_what_cannot_be_kept_does_not_hide_the_failure(transport: Transport) -> None:
    error = failed(transport, task(["leave rubbish"], ["break"]))
    assert str(error) == "LookupError: lost the map"
    assert "response" not in json.loads(error.partial or b"{}")


@over_both
@for_each("answer", [b"", b"[]", b"{", b"\xff", b'{"output": "\xff"}', b"{}", b'{"output": {}}'])
def test_a_model_whose_answer_cannot_be_read_is_malformed(
    transport: Transport, answer: bytes
) -> None:
    async def scenario() -> Failure:
        async with open_shop(transport) as shop:

            async def mumble(_: Json) -> bytes:
                return answer

            shop.model.answer = mumble
            with pytest.raises(ModelMalformedError, match="the answer of model") as raised:
                await shop.run(task(["model"]))
            return Failure.of(raised.value)

    assert asyncio.run(scenario()).retryable


@over_both
@for_each("answer", [b"", b"[]", b"done", b"\xff"])
def test_a_verified_row_that_is_no_json_object_is_the_verifiers_failure(
    transport: Transport, answer: bytes
) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            shop.workshop.route("POST", "/verify", _saying(answer))
            with pytest.raises(VerifierError, match="the verified row is not a JSON object"):
                await shop.run(task())

    asyncio.run(scenario())


@over_both
def test_a_verifier_that_does_not_repeat_the_response_does_not_lose_it(
    transport: Transport,
) -> None:
    async def scenario() -> Json:
        async with open_shop(transport) as shop:
            shop.workshop.route("POST", "/verify", _saying(b'{"reward": 1.0}'))
            return await shop.run(task(says=WORDS))

    verified = asyncio.run(scenario())
    assert verified["reward"] == 1.0
    assert verified["response"]["output"][-1]["content"][0]["text"] == WORDS


def _saying(body: bytes) -> Callable[[Request], Awaitable[Answer]]:
    async def answer(_: Request) -> Answer:
        return Answer(200, body)

    return answer


@over_both
def test_an_agent_that_knows_no_such_server_says_so(transport: Transport) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            del shop.clients.known["model"]
            with pytest.raises(AgentError, match="agent cannot find the server model"):
                await shop.run(task())

    asyncio.run(scenario())


# The loop alone.


@over_both
def test_the_loop_alone_works_in_the_callers_session(transport: Transport) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            jar = await seeded(shop.clients.client("workshop"))
            params = task(["tool", "add", {"amount": 4}], says="done")["responses_create_params"]
            agent = shop.clients.client("agent")
            answer = await agent.post("/v1/responses", params, jar)
            assert json.loads(answer.body)["output"][0]["output"] == '{"total":4}'
            assert answer.cookies == jar.cookies  # for callers that keep the last ones only
            assert [bench.total for bench in shop.workshop.benches] == [4]

    asyncio.run(scenario())


@over_both
@for_each("body", [b"", b"[]", b"{", b"\xff", b'{"a": "\xff"}'])
def test_parameters_that_are_no_json_object_are_refused(transport: Transport, body: bytes) -> None:
    async def scenario() -> tuple[int, str]:
        async with open_shop(transport) as shop:
            agent = shop.clients.client("agent")
            answer = await agent.call("/v1/responses", body, error=ToolError, any_status=True)
            return answer.status, answer.text

    status, text = asyncio.run(scenario())
    assert status == 400
    assert "the body must be a JSON object" in text


@over_both
def test_a_cookie_that_the_environment_sets_anew_reaches_the_caller(transport: Transport) -> None:
    class Reseeding(Courier):
        async def responses(self, params: Json, episode: Episode) -> Json:
            await episode.resources.call(
                "/seed_session", b"{}", error=ToolError, jar=episode.resources_jar
            )
            return said("done")

    async def scenario() -> None:
        async with open_shop(transport, Reseeding) as shop:
            jar = CookieJar({"theme": "dark"})
            await shop.clients.client("agent").post("/v1/responses", {}, jar)
            assert jar.cookies["theme"] == "dark"
            answer = await shop.clients.client("workshop").post("/add", {"amount": 1}, jar)
            assert answer.status == 200

    asyncio.run(scenario())


@over_both
def test_a_trajectory_that_is_no_json_is_the_agents_failure(transport: Transport) -> None:
    async def scenario() -> None:
        async with open_shop(transport) as shop:
            with pytest.raises(AgentError, match="TypeError"):
                await shop.clients.client("agent").post(
                    "/v1/responses", {"steps": [["leave rubbish"]]}
                )

    asyncio.run(scenario())


# Metrics of a collection.


@over_both
def test_an_agent_passes_the_environments_numbers_on(transport: Transport) -> None:
    async def scenario() -> tuple[bytes, bytes]:
        async with open_shop(transport) as shop:
            rows = [
                {"reward": 1.0, "_ng_task_index": 0},
                {"reward": 0.0, "_ng_task_index": 1},
            ]
            numbers = [
                (
                    await shop.clients.client(name).post(
                        "/aggregate_metrics", {"verify_responses": rows}
                    )
                ).body
                for name in ("workshop", "agent")
            ]
            return numbers[0], numbers[1]

    own, passed = asyncio.run(scenario())
    assert msgspec.json.decode(own) == msgspec.json.decode(passed)
    assert 0.5 in json.loads(own)["agent_metrics"].values()


@over_both
@for_each("body", [b"", b"[]", b'{"verify_responses": 3}', b'{"verify_responses": ["\xff"]}'])
def test_rows_of_another_shape_have_no_numbers(transport: Transport, body: bytes) -> None:
    async def scenario() -> int:
        async with open_shop(transport) as shop:
            client = shop.clients.client("workshop")
            return (
                await client.call("/aggregate_metrics", body, error=ToolError, any_status=True)
            ).status

    assert asyncio.run(scenario()) == 400


def test_numbers_from_a_server_that_compresses_arrive_readable() -> None:
    """What belongs to one connection must not be passed on to another."""

    async def numbers(_: web.Request) -> web.Response:
        headers = {"content-encoding": "gzip", "set-cookie": "a=b", "x-own": "1"}
        return web.Response(body=gzip.compress(b'{"agent_metrics": {}}'), headers=headers)

    async def scenario() -> None:
        app = web.Application()
        app.router.add_post("/aggregate_metrics", numbers)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        clients = Clients()
        references = {
            "resources_server": {"type": "resources_servers", "name": "foreign"},
            "model_server": {"type": "responses_api_models", "name": "model"},
        }
        agent: Courier = make(Courier, "agent", clients, **references)
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            async with http_session() as session:
                port = runner.addresses[0][1]
                clients.known["foreign"] = ServerClient(
                    "foreign", [Http(f"http://127.0.0.1:{port}", session)]
                )
                async with reach(agent, Transport.HTTP) as client:
                    answer = await client.post("/aggregate_metrics", {"verify_responses": []})
                    assert json.loads(answer.body) == {"agent_metrics": {}}
                    assert "x-own" not in answer.headers
        finally:
            await runner.cleanup()

    asyncio.run(scenario())


@over_both
def test_an_internal_failure_of_the_environment_stays_one(transport: Transport) -> None:
    async def scenario() -> FailureKind:
        async with open_shop(transport) as shop:

            def compute(tasks: list[list[Json]]) -> Json:
                raise KeyError("score")

            shop.workshop.compute_metrics = compute  # type: ignore[method-assign]
            with pytest.raises(RolloutError, match="KeyError: 'score'") as raised:
                await shop.clients.client("agent").post(
                    "/aggregate_metrics", {"verify_responses": [{"reward": 1.0}]}
                )
            return Failure.of(raised.value).kind

    assert asyncio.run(scenario()) is FailureKind.INTERNAL


def test_ids_of_a_prompt_that_are_no_json_are_the_models_failure() -> None:
    class Model:
        async def handle(self, request: Request, seconds: float) -> Answer:
            item = '{"type":"message","generation_token_ids":[3],"prompt_token_ids":[1,,2]}'
            return Answer(200, f'{{"output":[{item}]}}'.encode())

    client = connect(Model(), "policy")
    episode = Episode(client, client, tool_timeout=1.0, model_timeout=9.0, takes_tokens=True)
    with pytest.raises(ModelMalformedError, match="prompt_token_ids in the answer of policy"):
        asyncio.run(episode.ask_model({"input": "Hello."}))
