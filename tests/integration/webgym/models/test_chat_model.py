"""A chat model over real sockets, with all that goes wrong there."""

import asyncio
import logging
import time
from array import array
from typing import Any

import pytest

from rollgym.records import (
    DeadlineError,
    ModelAuthError,
    ModelContextError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelUnavailableError,
    Usage,
)
from rollgym.records.tokens import TokenSample
from rollgym.servers.context import working_for
from tests.faulty_model import (
    OVERFLOWS,
    Exchange,
    FaultyModel,
    answer,
    error,
    hang,
    in_background,
    reply,
    reset,
    slow,
    unused_port,
)
from tests.integration.servers.endpoints.pools import until
from tests.integration.webgym.models.chatting import (
    MESSAGES,
    TOKEN_FIELDS,
    ask,
    chat_model,
    in_a_loop,
    saying,
    strict,
    together,
)
from webgym.models.chat_model import ChatModel, ChatSettings
from webgym.models.endpoints import read_endpoints

TOKENS: dict[str, Any] = {
    "token_ids": [5, 6],
    "logprobs": {"content": [{"logprob": -0.1}, {"logprob": -0.2}]},
}


@in_a_loop
async def test_the_chat_is_sent_with_its_pictures_and_parameters() -> None:
    async with FaultyModel() as server, chat_model(server) as model:
        completion = await ask(model, temperature=0.5, user="rollout")
        assert (completion.text, completion.finish_reason) == ("Fine.", "stop")
        assert completion.usage == Usage(3, 2)
        assert completion.seconds > 0
        sent = server.requests[0]
        assert sent.path == "/v1/chat/completions"
        assert sent.json == {
            "messages": MESSAGES,
            "model": "m",
            "temperature": 0.5,
            "user": "rollout",
        }


@in_a_loop
async def test_the_model_is_that_of_the_settings_whatever_the_parameters_say() -> None:
    async with FaultyModel() as server, chat_model(server) as model:
        await model.complete(MESSAGES, {"model": "another", "messages": []}, within=10)
        assert server.requests[0].json == {"model": "m", "messages": MESSAGES}


@in_a_loop
async def test_the_key_of_the_endpoint_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODEL_KEY", "sk-0123456789")
    async with FaultyModel() as server:
        endpoints = read_endpoints(server.base_url, key_variable="MODEL_KEY")
        async with ChatModel(endpoints, ChatSettings(model="m")) as model:
            await ask(model)
        assert server.requests[0].headers["authorization"] == "Bearer sk-0123456789"


# What goes wrong once, and what for good.


@in_a_loop
async def test_a_single_failure_is_retried() -> None:
    for fault in [
        reply(429, headers={"retry-after": "0.1"}),
        error(500, "out of luck"),
        error(503, "loading"),
        reset(),
        reply(200, b"<html>"),
        reply(200, {"choices": []}),
        answer(saying(None)),
    ]:
        async with FaultyModel([fault]) as server, chat_model(server) as model:
            assert (await ask(model)).text == "Fine."
            assert len(server.requests) == 2


@in_a_loop
async def test_a_lasting_failure_is_raised_as_its_kind() -> None:
    for fault, raised, tries in [
        (error(500, "out of luck"), ModelUnavailableError, 2),
        (reply(429, headers={"retry-after": "0.1"}), ModelRateLimitError, 3),
        (error(400, "no such parameter"), ModelRequestError, 1),
        (error(401, "who are you"), ModelAuthError, 1),
        (reply(*OVERFLOWS["vllm, newer"]), ModelContextError, 1),
        (answer(saying(None)), ModelMalformedError, 2),
        (answer(saying("half", finish_reason="abort")), ModelMalformedError, 2),
    ]:
        async with FaultyModel(otherwise=fault) as server, chat_model(server) as model:
            with pytest.raises(raised):
                await ask(model)
            assert len(server.requests) == tries


@in_a_loop
async def test_without_retries_everything_is_tried_once() -> None:
    for fault in (answer(saying(None)), error(500, "out of luck")):
        async with FaultyModel([fault]) as server, chat_model(server, max_retries=0) as model:
            with pytest.raises((ModelMalformedError, ModelUnavailableError)):
                await ask(model)
            assert len(server.requests) == 1


@in_a_loop
async def test_a_try_at_a_hanging_server_ends_at_its_timeout() -> None:
    async with (
        FaultyModel([hang()]) as server,
        chat_model(server, request_timeout=1.5) as model,
    ):
        assert (await ask(model)).text == "Fine."
        await server.see_disconnect()


@in_a_loop
async def test_a_call_ends_at_its_deadline() -> None:
    async with FaultyModel(otherwise=hang()) as server, chat_model(server) as model:
        began = time.monotonic()
        with pytest.raises(DeadlineError):
            await ask(model, within=0.2)
        assert time.monotonic() - began < 30


@in_a_loop
async def test_the_deadline_of_the_rollout_holds_where_it_is_earlier() -> None:
    async with FaultyModel(otherwise=hang()) as server, chat_model(server) as model:
        with (
            working_for("rollout", asyncio.get_running_loop().time() + 0.2),
            pytest.raises(DeadlineError),
        ):
            await ask(model, within=60)


# Several endpoints.


@in_a_loop
async def test_the_load_is_spread_over_the_endpoints() -> None:
    later = slow(0.05)
    async with (
        FaultyModel(otherwise=later) as one,
        FaultyModel(otherwise=later) as two,
        chat_model(one, two) as model,
    ):
        await together(*(ask(model) for _ in range(20)))
        assert len(one.requests) == len(two.requests) == 10


@in_a_loop
async def test_a_dead_endpoint_costs_no_call() -> None:
    nobody = f"http://127.0.0.1:{unused_port()}"
    async with FaultyModel() as server, chat_model(nobody, server, max_retries=0) as model:
        answers = await together(*(ask(model) for _ in range(20)))
        assert [each.text for each in answers] == ["Fine."] * 20


@in_a_loop
async def test_an_endpoint_that_hangs_is_left_alone() -> None:
    async with (
        FaultyModel(otherwise=hang()) as stuck,
        FaultyModel() as well,
        chat_model(stuck, well, request_timeout=1.0) as model,
    ):
        for _ in range(8):
            assert (await ask(model)).text == "Fine."
        assert len(stuck.requests) < 5


# A model that is away.


@in_a_loop
async def test_a_model_that_is_away_is_waited_for() -> None:
    server = FaultyModel()
    server.port = unused_port()
    async with chat_model(server, outage_timeout=60) as model:
        calls = [asyncio.create_task(ask(model, within=20)) for _ in range(8)]
        await asyncio.sleep(0.3)
        assert not any(call.done() for call in calls)
        async with server:
            answers = await together(*calls)
    assert [each.text for each in answers] == ["Fine."] * 8


@in_a_loop
async def test_two_endpoints_that_are_away_are_waited_for() -> None:
    one, two = FaultyModel(), FaultyModel()
    one.port, two.port = unused_port(), unused_port()
    async with chat_model(one, two, outage_timeout=60) as model:
        call = asyncio.create_task(ask(model, within=60))
        await asyncio.sleep(0.3)
        assert not call.done()
        async with two:
            assert (await call).text == "Fine."


@in_a_loop
async def test_calls_under_way_outlive_a_restart_of_the_model_server() -> None:
    server = FaultyModel([answer(), *(hang() for _ in range(6))])
    server.port = unused_port()
    async with chat_model(server, outage_timeout=60) as model:
        async with server:
            calls = [asyncio.create_task(ask(model, within=20)) for _ in range(7)]
            await until(lambda: server.in_flight == 6)
        await asyncio.sleep(0.3)
        async with server:
            answers = await together(*calls)
    assert [each.text for each in answers] == ["Fine."] * 7


@in_a_loop
async def test_a_model_without_a_name_is_waited_for_too() -> None:
    server = FaultyModel(otherwise=answer(saying("a", model="served")))
    server.port = unused_port()
    async with chat_model(server, model=None, outage_timeout=60) as model:
        calls = [asyncio.create_task(ask(model, within=20)) for _ in range(3)]
        await asyncio.sleep(0.3)
        async with server:
            assert [each.model for each in await together(*calls)] == ["served"] * 3


@in_a_loop
async def test_an_outage_is_waited_for_until_its_timeout() -> None:
    async with chat_model(f"http://127.0.0.1:{unused_port()}", outage_timeout=0.5) as model:
        began = time.monotonic()
        with pytest.raises(ModelUnavailableError, match="could not connect"):
            await ask(model, within=60)
        assert 0.1 < time.monotonic() - began < 30


@in_a_loop
async def test_a_request_that_fails_while_others_succeed_is_not_repeated() -> None:
    async def play(exchange: Exchange) -> bool:
        if exchange.request.json["user"] == "poison":
            return await error(500, "this picture breaks me")(exchange)
        return await slow(0.1)(exchange)

    async def others() -> None:
        while True:
            await ask(model, user="usual")

    async with (
        FaultyModel(otherwise=play) as server,
        chat_model(server, outage_timeout=60) as model,
    ):
        beside = asyncio.create_task(others())
        began = time.monotonic()
        with pytest.raises(ModelUnavailableError, match="this picture breaks me"):
            await ask(model, user="poison", within=60)
        assert time.monotonic() - began < 30
        beside.cancel()
        await asyncio.wait([beside])


# Turns.


@in_a_loop
async def test_so_many_calls_are_under_way_at_a_time_and_no_more() -> None:
    async with (
        FaultyModel(otherwise=slow(0.02)) as server,
        chat_model(server, max_concurrency=3) as model,
    ):
        await together(*(ask(model) for _ in range(12)))
        assert server.most_in_flight == 3


@in_a_loop
async def test_calls_get_slots_in_the_order_they_came() -> None:
    async with (
        FaultyModel(otherwise=slow(0.01)) as server,
        chat_model(server, max_concurrency=1) as model,
    ):
        await together(*(ask(model, user=str(number)) for number in range(10)))
        assert [each.json["user"] for each in server.requests] == list(map(str, range(10)))


@in_a_loop
async def test_waiting_for_a_slot_does_not_count_against_the_time_of_the_call() -> None:
    async with (
        FaultyModel(otherwise=slow(0.4)) as server,
        chat_model(server, max_concurrency=1) as model,
    ):
        answers = await together(*(ask(model, within=1.5) for _ in range(5)))
        assert answers[-1].seconds > 1.5


@in_a_loop
async def test_waiting_for_a_slot_ends_at_the_deadline_of_the_rollout() -> None:
    async with (
        FaultyModel(otherwise=hang()) as server,
        chat_model(server, max_concurrency=1) as model,
    ):
        first = asyncio.create_task(ask(model))
        await server.see_request()
        with (
            working_for("rollout", asyncio.get_running_loop().time() + 0.1),
            pytest.raises(DeadlineError, match=r"got no slot within [0-9.]+ s: 1 other"),
        ):
            await ask(model)
        first.cancel()
        await asyncio.wait([first])


@in_a_loop
async def test_a_cancelled_call_releases_its_slot() -> None:
    async with (
        FaultyModel([hang()]) as server,
        chat_model(server, max_concurrency=1) as model,
    ):
        first = asyncio.create_task(ask(model))
        await server.see_request()
        first.cancel()
        await asyncio.wait([first])
        assert (await ask(model)).text == "Fine."


# Tokens.


@in_a_loop
async def test_tokens_are_asked_for_where_they_are_wanted_and_kept() -> None:
    async with (
        FaultyModel(otherwise=answer(saying("ab", **TOKENS))) as server,
        chat_model(server, tokens=True) as model,
    ):
        completion = await ask(model)
        assert server.requests[1].json.items() >= TOKEN_FIELDS.items()
        assert completion.tokens == TokenSample(
            prompt=array("Q", [1, 2]),
            sampled=array("Q", [5, 6]),
            logprobs=[-0.1, -0.2],
        )


@in_a_loop
async def test_tokens_are_not_asked_for_where_they_are_not_wanted() -> None:
    async with FaultyModel() as server, chat_model(server) as model:
        await ask(model)
        assert not TOKEN_FIELDS.keys() & server.requests[0].json.keys()


@in_a_loop
async def test_a_server_that_refuses_to_tell_tokens_is_asked_without_from_then_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        FaultyModel(otherwise=strict()) as server,
        chat_model(server, tokens=True) as model,
    ):
        first = await ask(model)
        assert (first.text, first.tokens) == ("Fine.", None)
        assert len(server.requests) == 3
        await ask(model)
        assert len(server.requests) == 4
        warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
        assert len(warnings) == 1
        assert "Unrecognized request argument: return_token_ids" in warnings[0].getMessage()


@in_a_loop
async def test_a_request_that_is_wrong_without_them_too_decides_nothing_about_tokens() -> None:
    async with (
        FaultyModel([answer(saying(None)), *[error(400, "bad picture")] * 2]) as server,
        chat_model(server, tokens=True) as model,
    ):
        with pytest.raises(ModelRequestError, match="bad picture"):
            await ask(model)
        await ask(model)
        assert server.requests[-1].json.items() >= TOKEN_FIELDS.items()


@in_a_loop
async def test_a_server_that_ignores_the_request_for_tokens_is_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FaultyModel() as server, chat_model(server, tokens=True) as model:
        await together(*(ask(model) for _ in range(3)))
    assert [
        each.getMessage() for each in caplog.records if "returned no usable" in each.getMessage()
    ]
    assert len(caplog.records) == 1


# The model's name.


@in_a_loop
async def test_a_model_without_a_name_is_asked_for_it_once() -> None:
    async with (
        FaultyModel(otherwise=answer(saying("a", model="served"))) as server,
        chat_model(server, model=None) as model,
    ):
        answers = await together(*(ask(model) for _ in range(5)))
        assert {each.model for each in answers} == {"served"}
        paths = [request.path for request in server.requests]
        assert paths.count("/v1/models") == 1


@in_a_loop
async def test_a_model_whose_name_is_unclear_needs_a_setting() -> None:
    for listed, raised, says in [
        (
            {"data": [{"id": "a"}, {"id": "b"}]},
            ModelRequestError,
            "several models: a, b; set base_model",
        ),
        ({"data": []}, ModelRequestError, "serves no model"),
        ({"models": []}, ModelMalformedError, "the list of models cannot be read"),
    ]:
        async with (
            FaultyModel(otherwise=reply(200, listed)) as server,
            chat_model(server, model=None) as model,
        ):
            with pytest.raises(raised, match=says):
                await ask(model)


# Event loops.


def test_a_model_can_be_used_in_one_event_loop_after_another() -> None:
    async def once(model: ChatModel) -> str:
        async with model:
            return (await ask(model)).text

    with in_background(FaultyModel()) as server:
        model = chat_model(server)
        assert [asyncio.run(once(model)) for _ in range(3)] == ["Fine."] * 3


@in_a_loop
async def test_a_model_that_was_closed_can_be_used_again() -> None:
    async with FaultyModel() as server:
        model = chat_model(server)
        await ask(model)
        await model.close()
        await model.close()
        async with model:
            assert (await ask(model)).text == "Fine."
