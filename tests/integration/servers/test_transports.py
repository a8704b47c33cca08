"""One contract, two transports: what a caller gets does not depend on where the callee lives."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollgym.records import Failure, FailureKind, ModelRequestError, RolloutError, ToolError
from rollgym.servers import (
    Answer,
    CookieJar,
    Request,
    Server,
    ServerClient,
    ServerConfig,
    ServerKind,
    tool,
)
from rollgym.servers.exchange import json_answer
from tests.cases import for_each
from tests.integration.servers.transports import Transport, over_both, reach
from tests.integration.servers.workshop import (
    WORDS,
    Bench,
    Json,
    Puppet,
    Workshop,
    every_failure,
    make,
    said,
    seeded,
    until,
    workshop,
)


class Mirror(Server):
    """Answers with what it was asked, or in the odd ways that its paths name."""

    kind = ServerKind.MODEL

    def __init__(self, *paths: str) -> None:
        super().__init__("mirror", ServerConfig())
        for path in paths:
            self.route("POST", path, self._mirror)
        self.route("POST", "/plain", self._plain)
        self.route("POST", "/cookies", self._cookies)
        self.route("POST", "/busy", self._busy)
        self.route("POST", "/break", self._break)
        self.route("POST", "/stray", self._stray)
        self.route("POST", "/surrogate", self._surrogate)
        self.errors = {str(Failure.of(error).kind): error for error in every_failure()}
        for kind in self.errors:
            self.route("POST", f"/{kind}", self._fail)

    async def _mirror(self, request: Request) -> Answer:
        return json_answer(
            [request.method, request.path, request.body.decode(), dict(request.cookies)]
        )

    async def _plain(self, _: Request) -> Answer:
        return Answer(203, WORDS.encode(), "text/plain; charset=utf-8", headers={"x-word": "ü"})

    async def _cookies(self, _: Request) -> Answer:
        return Answer(200, b"{}", cookies={"new": 'a="b c"', "old": "", "word": "ü"})

    async def _busy(self, _: Request) -> Answer:
        return Answer(429, b"later", headers={"retry-after": "2.5"})

    async def _break(self, _: Request) -> Answer:
        raise LookupError(WORDS)

    async def _stray(self, _: Request) -> Answer:
        """Wait for something that somebody else cancelled."""
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        raise AssertionError

    async def _surrogate(self, _: Request) -> Answer:
        raise RuntimeError("half a \ud800 character")

    async def _fail(self, request: Request) -> Answer:
        raise self.errors[request.path[1:]]


def mirrored(transport: Transport, path: str, body: bytes = b"", **options: Any) -> Answer:
    async def ask() -> Answer:
        async with reach(Mirror("/mirror", path), transport) as client:
            return await client.call(path, body, error=ToolError, any_status=True, **options)

    return asyncio.run(ask())


def asked(transport: Transport, path: str, value: object, *, wish: str = "") -> Answer:
    """A tool's answer, in a session of its own."""

    async def ask() -> Answer:
        async with reach(workshop(), transport) as client:
            return await client.post(path, value, await seeded(client, wish=wish))

    return asyncio.run(ask())


def failure_of(transport: Transport, path: str, value: object) -> Failure:
    with pytest.raises(RolloutError) as raised:
        asked(transport, path, value)
    return Failure.of(raised.value)


def message_of(answer: Answer) -> str:
    message: str = json.loads(answer.body)["error"]["message"]
    return message


# Answers.


@over_both
@for_each("body", [b"", b"{}", WORDS.encode(), b"\r\n\0", b"x" * 1_000_000])
def test_a_body_arrives_as_it_was_sent(transport: Transport, body: bytes) -> None:
    answer = mirrored(transport, "/mirror", body)
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert json.loads(answer.body) == ["POST", "/mirror", body.decode(), {}]


@over_both
@for_each(
    "path",
    ["/a b", "/größe", "/a?b=c", "/a#b", "/a%20b", "/a/../b", "/./a", "//a", "/a+b", "/a;b", "/%"],
)
def test_a_path_arrives_as_it_was_sent(transport: Transport, path: str) -> None:
    assert json.loads(mirrored(transport, path).body)[1] == path


@over_both
def test_a_tool_name_cannot_lead_to_another_path(transport: Transport) -> None:
    for name in ("verify?x", "x/../verify", "verify#", "%76erify"):
        assert asked(transport, f"/{name}", {}).status == 404


@over_both
def test_status_and_body_of_any_type_arrive(transport: Transport) -> None:
    answer = mirrored(transport, "/plain")
    assert (answer.status, answer.text, answer.ok) == (203, WORDS, True)
    assert answer.content_type.startswith("text/plain")
    assert answer.headers["x-word"] == "ü"


@over_both
@for_each("cookies", [{}, {"one": "1"}, {"one": "1", "two": '"2 3"'}, {"session": "ü=="}])
def test_cookies_of_the_jar_are_sent(transport: Transport, cookies: dict[str, str]) -> None:
    answer = mirrored(transport, "/mirror", jar=CookieJar(cookies))
    assert json.loads(answer.body)[3] == cookies


@over_both
def test_cookies_that_are_given_are_kept_and_those_taken_back_are_dropped(
    transport: Transport,
) -> None:
    jar = CookieJar({"old": "1", "other": "2"})
    mirrored(transport, "/cookies", jar=jar)
    assert jar.cookies == {"other": "2", "new": 'a="b c"', "word": "ü"}


@over_both
def test_calls_at_the_same_time_share_a_jar_but_not_a_request(transport: Transport) -> None:
    class Slow(Mirror):
        async def _mirror(self, request: Request) -> Answer:
            await asyncio.sleep(0.02)
            return await super()._mirror(request)

    async def ask() -> tuple[Answer, Answer]:
        async with reach(Slow("/mirror"), transport) as client:
            jar = CookieJar({"old": "1"})
            return await asyncio.gather(
                client.post("/mirror", {}, jar), client.post("/cookies", {}, jar)
            )

    slow, _ = asyncio.run(ask())
    assert json.loads(slow.body)[3] == {"old": "1"}


# Refusals.


@over_both
def test_an_unknown_path_is_told_those_that_there_are(transport: Transport) -> None:
    answer = asked(transport, "/paint", {})
    assert answer.status == 404
    assert message_of(answer).startswith("workshop has no /paint; its routes are ")
    assert "POST /add" in message_of(answer)


@over_both
@for_each("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_wrong_method_is_told_the_right_one(transport: Transport, method: str) -> None:
    answer = mirrored(transport, "/mirror", method=method)
    assert answer.status == 405
    assert message_of(answer) == f"/mirror of mirror expects POST, not {method}"


@over_both
def test_a_head_request_is_a_wrong_method(transport: Transport) -> None:
    assert mirrored(transport, "/mirror", method="HEAD").status == 405


@over_both
@for_each("path", ["/seed_session", "/verify"])
@for_each("body", [b"", b"[]", b"{", b"\xff", b'{"a": "\xff"}', b"null"])
def test_a_row_that_is_no_json_object_is_refused(
    transport: Transport, path: str, body: bytes
) -> None:
    async def ask() -> Answer:
        async with reach(workshop(), transport) as client:
            return await client.call(path, body, error=ToolError, any_status=True)

    answer = asyncio.run(ask())
    assert answer.status == 400
    assert "the row" in message_of(answer)


@over_both
def test_a_row_to_verify_needs_a_response(transport: Transport) -> None:
    answer = asked(transport, "/verify", {"expected": 1})
    assert (answer.status, message_of(answer)) == (400, "the row to verify has no `response`")
    answer = asked(transport, "/verify", {"expected": 1, "response": "done"})
    assert answer.status == 400


@over_both
@for_each("path", ["/verify", "/add"])
def test_a_rejected_request_is_not_retried(transport: Transport, path: str) -> None:
    async def ask() -> RolloutError:
        async with reach(workshop(), transport) as client:
            with pytest.raises(ToolError, match="HTTP 4(00|22)") as raised:
                await client.call(path, b'{"colour": 1}', error=ToolError, jar=await seeded(client))
            return raised.value

    assert not Failure.of(asyncio.run(ask())).retryable


@over_both
def test_a_row_of_another_type_is_a_failure_of_the_task(transport: Transport) -> None:
    failure = failure_of(transport, "/verify", {"expected": "many", "response": {}})
    assert (failure.kind, failure.retryable) == (FailureKind.TASK, False)
    assert "workshop" in failure.detail
    assert "expected" in failure.detail


# Tools.


@over_both
def test_a_tool_gets_its_arguments_and_answers_a_text(transport: Transport) -> None:
    answer = asked(transport, "/echo", {"words": WORDS})
    assert (answer.status, answer.text) == (200, WORDS)
    assert answer.content_type.startswith("text/plain")


@over_both
def test_a_tool_without_arguments_takes_an_empty_body(transport: Transport) -> None:
    async def ask() -> Answer:
        async with reach(workshop(), transport) as client:
            return await client.call("/whereabouts", b"", error=ToolError, any_status=True)

    assert asyncio.run(ask()).status == 200


@over_both
def test_a_rejection_is_for_the_model_to_read(transport: Transport) -> None:
    answer = asked(transport, "/reject", {"reason": WORDS})
    assert (answer.status, message_of(answer)) == (400, WORDS)


@over_both
def test_wrong_arguments_are_named(transport: Transport) -> None:
    answer = asked(transport, "/add", {"amount": "three", "colour": "blue"})
    assert answer.status == 422
    assert message_of(answer).startswith("wrong arguments for add: ")
    assert "amount: " in message_of(answer)
    assert "colour: " in message_of(answer)


@over_both
@for_each("body", [b"{", b"[]", b"3", b'{"amount": "\xff"}', b'"\\ud800"'])
def test_arguments_that_are_no_json_object_are_refused(transport: Transport, body: bytes) -> None:
    async def ask() -> Answer:
        async with reach(workshop(), transport) as client:
            jar = await seeded(client)
            return await client.call("/add", body, error=ToolError, any_status=True, jar=jar)

    assert asyncio.run(ask()).status == 422


@over_both
def test_an_exception_that_a_tool_did_not_mean_fails_the_rollout_with_its_place(
    transport: Transport,
) -> None:
    failure = failure_of(transport, "/fail", {})
    assert (failure.kind, failure.retryable) == (FailureKind.TOOL, True)
    assert failure.detail == "KeyError: 'the drawer is stuck'"
    assert Path(failure.file or "").name == "workshop.py"
    assert (failure.line or 0) > 0


@over_both
@for_each("name", ["exit", "give_back", "lose_a_task", "run_out"])
def test_whatever_else_ends_a_tool_is_its_failure_too(transport: Transport, name: str) -> None:
    class Odd(Workshop):
        @tool
        async def exit(self) -> str:
            """Leave."""
            raise SystemExit(3)

        @tool
        async def give_back(self) -> object:
            """Return what is not JSON."""
            return object()

        @tool
        async def lose_a_task(self) -> str:
            """Await what was cancelled."""
            lost = asyncio.ensure_future(asyncio.sleep(60))
            lost.cancel()
            await lost
            return ""

        @tool
        async def run_out(self) -> str:
            """Wait too long."""
            async with asyncio.timeout(0):
                await asyncio.sleep(60)
            return ""

    async def ask() -> Failure:
        async with reach(make(Odd, "odd"), transport) as client:
            with pytest.raises(RolloutError) as raised:
                await client.post(f"/{name}", {})
            return Failure.of(raised.value)

    assert asyncio.run(ask()).kind is FailureKind.TOOL


@over_both
def test_a_rejection_out_of_a_task_group_is_for_the_model_to_read(transport: Transport) -> None:
    class Delegating(Workshop):
        @tool
        async def delegate(self) -> str:
            """Let others reject."""
            async with asyncio.TaskGroup() as group:
                group.create_task(self.reject("not today"))
            return ""

    async def ask() -> Answer:
        async with reach(make(Delegating, "workshop"), transport) as client:
            return await client.post("/delegate", {})

    answer = asyncio.run(ask())
    assert (answer.status, message_of(answer)) == (400, "not today")


@over_both
def test_a_typed_error_in_a_tool_fails_the_rollout(transport: Transport) -> None:
    failure = failure_of(transport, "/give_up", {})
    assert (failure.kind, failure.detail) == (FailureKind.TOOL, "the saw is gone")
    assert (failure.retryable, failure.retry_after) == (False, 1.5)
    assert [(cause.type, cause.message) for cause in failure.causes] == [("ValueError", "no wood")]


@over_both
def test_calls_of_tools_without_state_are_served_at_the_same_time(transport: Transport) -> None:
    async def ask() -> list[Answer]:
        async with reach(workshop(), transport) as client, asyncio.timeout(60):
            jar = await seeded(client)
            return await asyncio.gather(*[client.post("/meet", {}, jar) for _ in range(3)])

    assert [answer.text for answer in asyncio.run(ask())] == ["met"] * 3


@over_both
def test_the_state_of_a_session_is_used_by_one_call_at_a_time(transport: Transport) -> None:
    """Tools, the verifier and the closing of the session wait for each other."""

    class Careless(Workshop):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.gate = asyncio.Event()

        @property
        def waiting(self) -> int:
            return sum(session.calls for session in self._sessions._open.values())

        @tool
        async def add_slowly(self, state: Bench, amount: int) -> str:
            """Add to the total, with a pause between reading and writing."""
            before = state.total
            await self.gate.wait()
            await asyncio.sleep(0)
            state.total = before + amount
            return str(state.total)

        async def close_session(self, state: Bench) -> None:
            assert state.total == 20
            await super().close_session(state)

    async def scenario() -> None:
        server: Careless = make(Careless, "workshop")
        async with reach(server, transport) as client, asyncio.timeout(60):
            jar = await seeded(client)
            adding = [
                asyncio.ensure_future(client.post("/add_slowly", {"amount": 1}, jar))
                for _ in range(20)
            ]
            await until(lambda: server.waiting == 20)
            row = {"expected": 20, "response": said("done")}
            verifying = asyncio.ensure_future(client.post("/verify", row, jar))
            await until(lambda: server.waiting == 21)
            server.gate.set()
            totals = [int(answer.text) for answer in await asyncio.gather(*adding)]
            assert sorted(totals) == list(range(1, 21))
            assert json.loads((await verifying).body)["total"] == 20
            assert [bench.closed for bench in server.benches] == [1]

    asyncio.run(scenario())


@over_both
def test_a_session_in_which_a_tool_broke_gets_no_verdict(transport: Transport) -> None:
    """An agent that shows every answer to the model would otherwise bring a reward home."""

    async def scenario() -> None:
        async with reach(workshop(), transport) as client:
            jar = await seeded(client)
            with pytest.raises(ToolError, match="the drawer is stuck"):
                await client.post("/fail", {}, jar)
            assert (await client.post("/add", {"amount": 1}, jar)).status == 200
            with pytest.raises(ToolError, match="the drawer is stuck"):
                await client.post("/verify", {"expected": 1, "response": said("done")}, jar)

    asyncio.run(scenario())


# Verdicts.


@over_both
def test_a_verdict_is_added_to_the_row(transport: Transport) -> None:
    async def ask() -> Json:
        async with reach(workshop(), transport) as client:
            jar = await seeded(client)
            await client.post("/add", {"amount": 2}, jar)
            row = {"expected": 2, "colour": WORDS, "ratio": 0.1, "response": said("done")}
            verified: Json = json.loads((await client.post("/verify", row, jar)).body)
            assert {name: verified.pop(name) for name in row} == row
            return verified

    assert asyncio.run(ask()) == {"reward": 1.0, "success": True, "total": 2, "said": "done"}


@over_both
@for_each(
    ("text", "complaint"),
    [
        ("raise", "RuntimeError: the scales are broken"),
        ("nan", "the verifier gave nan as reward, which is not finite"),
        ("unserialisable", "TypeError: the verdict holds a Bench, which is not JSON"),
    ],
)
def test_a_verifier_without_a_usable_reward_is_a_failure(
    transport: Transport, text: str, complaint: str
) -> None:
    failure = failure_of(transport, "/verify", {"response": said(text)})
    assert (failure.kind, failure.retryable) == (FailureKind.VERIFIER, True)
    assert failure.detail == complaint


@over_both
def test_a_session_that_cannot_be_seeded_is_a_failure_of_the_environment(
    transport: Transport,
) -> None:
    with pytest.raises(RolloutError, match="OSError: no bench is free") as raised:
        asked(transport, "/echo", {}, wish="no seed")
    assert Failure.of(raised.value).kind is FailureKind.ENVIRONMENT


# Typed failures.


@over_both
@for_each("error", every_failure())
def test_a_failure_arrives_with_all_that_is_known_of_it(
    transport: Transport, error: RolloutError
) -> None:
    with pytest.raises(RolloutError) as raised:
        mirrored(transport, f"/{Failure.of(error).kind}")
    arrived = raised.value
    assert type(arrived) is type(error)
    assert Failure.of(arrived) == Failure.of(error)
    assert (arrived.retryable, arrived.retry_after) == (error.retryable, error.retry_after)
    assert _json(arrived.partial) == _json(error.partial)


def _json(partial: bytes | None) -> object:
    return None if partial is None else json.loads(partial)


@over_both
def test_an_untyped_error_is_internal_and_keeps_its_traceback(transport: Transport) -> None:
    with pytest.raises(RolloutError) as raised:
        mirrored(transport, "/break")
    failure = Failure.of(raised.value)
    assert (failure.kind, failure.detail) == (FailureKind.INTERNAL, f"LookupError: {WORDS}")
    assert "in Mirror._break" in (failure.traceback or "")


@over_both
def test_a_cancellation_that_nobody_asked_for_is_an_error(transport: Transport) -> None:
    """It must not look like one of the caller's task, which would end with it."""
    with pytest.raises(RolloutError) as raised:
        mirrored(transport, "/stray")
    assert Failure.of(raised.value).detail.startswith("CancelledError")


@over_both
def test_text_that_cannot_be_encoded_is_still_reported(transport: Transport) -> None:
    with pytest.raises(RolloutError, match=r"half a \? character"):
        mirrored(transport, "/surrogate")


@over_both
def test_an_answer_that_is_no_failure_is_an_error_only_to_call(transport: Transport) -> None:
    async def ask() -> tuple[Answer, RolloutError]:
        async with reach(Mirror(), transport) as client:
            answer = await client.call("/busy", b"", error=ToolError, any_status=True)
            with pytest.raises(ToolError) as raised:
                await client.call("/busy", b"", error=ToolError)
            return answer, raised.value

    answer, error = asyncio.run(ask())
    assert (answer.status, answer.text, answer.ok) == (429, "later", False)
    assert str(error) == "mirror answered /busy with HTTP 429: later"
    assert (error.retryable, error.retry_after) == (True, 2.5)


@over_both
def test_a_request_that_the_callee_refuses_is_not_worth_repeating(transport: Transport) -> None:
    async def ask(client: ServerClient) -> RolloutError:
        with pytest.raises(ToolError) as raised:
            await client.call("/nowhere", b"", error=ToolError)
        return raised.value

    async def scenario() -> RolloutError:
        async with reach(Mirror(), transport) as client:
            return await ask(client)

    assert asyncio.run(scenario()).retryable is None


# Models.


def model_failure(transport: Transport, path: str, body: bytes, method: str = "POST") -> Failure:
    async def ask() -> Failure:
        async with reach(make(Puppet, "model"), transport) as client:
            with pytest.raises(RolloutError) as raised:
                await client.call(path, body, error=ToolError, any_status=True, method=method)
            return Failure.of(raised.value)

    return asyncio.run(ask())


@over_both
@for_each(
    ("path", "body", "complaint"),
    [
        ("/v1/responses", b"[]", "the request is not a JSON object"),
        ("/v1/responses", b'{"stream": "yes"}', "`stream` must be true or false"),
        ("/v1/chat/completions", b"{}", "messages: must be an array"),
    ],
)
def test_what_a_model_server_cannot_do_is_a_rejected_request(
    transport: Transport, path: str, body: bytes, complaint: str
) -> None:
    failure = model_failure(transport, path, body)
    assert failure.kind is ModelRequestError.kind
    assert complaint in failure.detail


@over_both
@for_each(
    ("error", "kind"),
    [
        (ConnectionError("the strings are cut"), FailureKind.MODEL_UNAVAILABLE),
        (ModelRequestError("no such voice"), FailureKind.MODEL_REQUEST),
        (KeyError("a bug"), FailureKind.INTERNAL),
    ],
)
def test_a_model_without_an_answer_says_why(
    transport: Transport, error: Exception, kind: FailureKind
) -> None:
    async def stumble(_: Json) -> bytes:
        raise error

    async def ask() -> Failure:
        model: Puppet = make(Puppet, "model")
        model.answer = stumble
        async with reach(model, transport) as client:
            with pytest.raises(RolloutError) as raised:
                await client.post("/v1/responses", {})
            return Failure.of(raised.value)

    failure = asyncio.run(ask())
    assert failure.kind is kind
    assert str(error) in failure.detail


@over_both
def test_a_model_server_lists_its_models(transport: Transport) -> None:
    async def ask() -> Answer:
        async with reach(make(Puppet, "model"), transport) as client:
            return await client.call(
                "/v1/models", b"", error=ToolError, any_status=True, method="GET"
            )

    assert msgspec.json.decode(asyncio.run(ask()).body) == {"object": "list", "data": []}
