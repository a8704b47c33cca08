"""What only a network can do: peers that speak slowly, brokenly, or not to the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rollgym.records import Failure, ToolError
from rollgym.servers import Http, ServerClient, http_session, listening
from rollgym.servers.exchange import JSON, Answer, Request
from tests.cases import for_each
from tests.integration.servers.workshop import Workshop, seeded, until, workshop

ECHO = b'{"words": "hello"}'


class RawClient:
    """One connection to a server, with nothing between the test and the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the next answer."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        pairs = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split()[1]), headers, body

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def wired(server: Workshop) -> AsyncIterator[RawClient]:
    await server.start()
    try:
        async with listening(server) as port, asyncio.timeout(60):
            wire = RawClient(*await asyncio.open_connection("127.0.0.1", port))
            try:
                yield wire
            finally:
                await wire.close()
    finally:
        await server.close()


def request(path: str, body: bytes = b"", *headers: str, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Type: {JSON}", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def exchanged(data: bytes, **settings: Any) -> tuple[int, dict[str, str], bytes]:
    """What the server says to these bytes."""

    async def scenario() -> tuple[int, dict[str, str], bytes]:
        async with wired(workshop(**settings)) as wire:
            await wire.send(data)
            return await wire.answer()

    return asyncio.run(scenario())


def test_a_caller_that_goes_away_cancels_the_tool() -> None:
    async def scenario() -> None:
        server = workshop()
        async with wired(server) as wire:
            await wire.send(request("/seed_session", b"{}"))
            _, headers, _ = await wire.answer()
            cookie = headers["set-cookie"].partition(";")[0]
            await wire.send(request("/hang", b"", f"Cookie: {cookie}"))
            await server.gauge.began.wait()
            await wire.close()
            await server.gauge.ended.wait()
            assert server.gauge.cancelled == 1

    asyncio.run(scenario())


def test_a_request_that_does_not_arrive_in_time_is_given_up() -> None:
    unfinished = request("/echo", ECHO)[:-1]
    status, _, body = exchanged(unfinished, request_timeout=0.05)
    assert status == 408
    assert json.loads(body)["error"]["message"] == "the body did not arrive in time"


def test_a_request_that_breaks_off_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with wired(workshop()) as wire:
            await wire.send(request("/echo", ECHO)[:-1])

    asyncio.run(scenario())
    assert caplog.records == []


def test_the_session_cookie_is_for_servers_only() -> None:
    _, headers, _ = exchanged(request("/seed_session", b"{}"))
    name, *attributes = headers["set-cookie"].split("; ")
    assert name.startswith("session_workshop=")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=lax"]


def test_the_cookie_of_a_session_that_ended_is_taken_back() -> None:
    _, headers, _ = exchanged(request("/close_session", b"{}"))
    assert headers["set-cookie"].startswith("session_workshop=; ")
    assert "Max-Age=0" in headers["set-cookie"]


def test_a_failure_says_when_to_come_back() -> None:
    status, headers, _ = exchanged(request("/give_up", b"{}"))
    assert (status, headers["x-rollgym-failure"], headers["retry-after"]) == (502, "tool", "1.5")


def test_a_connection_serves_one_request_after_another() -> None:
    async def scenario() -> None:
        async with wired(workshop(max_request_bytes=1000)) as wire:
            large = request("/echo", b"x" * 200_000)
            await wire.send(request("/echo", ECHO) + large + request("/nowhere"))
            await wire.send(request("/echo", ECHO))
            assert [(await wire.answer())[0] for _ in range(4)] == [200, 413, 404, 200]

    asyncio.run(scenario())


def test_a_body_may_come_in_chunks() -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(ECHO), ECHO)
    head = request("/echo").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    assert exchanged(head + chunks)[2] == b"hello"


def test_a_body_that_cannot_be_read_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    head = request("/echo").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    assert exchanged(head + b"these are no chunks")[0] == 400
    assert caplog.records == []


@for_each("said", ["soon", "", "-5", "nan", "inf", "1e999", "\xff"])
def test_a_timeout_that_makes_no_sense_is_passed_over(said: str) -> None:
    answer = exchanged(request("/whereabouts", b"", f"x-rollgym-timeout: {said}"))
    seconds = json.loads(answer[2])["seconds"]
    assert seconds == (0.0 if said == "-5" else 1e6)


def test_health_can_be_asked_for_without_a_body() -> None:
    data = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    status, headers, body = exchanged(data)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body)["name"] == "workshop"


# What a client of ours meets.


@asynccontextmanager
async def foreign(answer: bytes) -> AsyncIterator[ServerClient]:
    """A client of a server that says these bytes to everybody, and then closes."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, http_session() as session:
        yield ServerClient("foreign", [Http(f"http://127.0.0.1:{port}/", session)])


@for_each(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\n",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
        b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 10_000 + b"\r\n\r\n",
    ],
)
def test_an_answer_that_is_cut_off_or_unreadable_is_none(answer: bytes) -> None:
    async def scenario() -> Failure:
        async with foreign(answer) as client:
            with pytest.raises(ToolError, match="foreign gave no answer: http://") as raised:
                await client.call("/tool", b"{}", error=ToolError, any_status=True)
            return Failure.of(raised.value)

    assert asyncio.run(scenario()).retryable


@for_each("body", [b"", b"oops", b"\xff", b'{"error": {}}', b'{"error": {"kind": "weather"}}'])
def test_a_failure_that_cannot_be_read_is_an_answer_like_any_other(body: bytes) -> None:
    head = f"HTTP/1.1 502 Bad Gateway\r\nx-rollgym-failure: tool\r\nContent-Length: {len(body)}"

    async def scenario() -> None:
        async with foreign(f"{head}\r\n\r\n".encode() + body) as client:
            answer = await client.call("/tool", b"{}", error=ToolError, any_status=True)
            assert (answer.status, answer.body) == (502, body)

    asyncio.run(scenario())


def test_the_work_of_many_callers_that_go_away_ends() -> None:
    async def scenario() -> None:
        server = workshop()
        await server.start()
        async with listening(server) as port, http_session() as session, asyncio.timeout(60):
            client = ServerClient("workshop", [Http(f"http://127.0.0.1:{port}", session)])
            calls = [
                asyncio.ensure_future(client.post("/hang", {}, await seeded(client)))
                for _ in range(20)
            ]
            await until(lambda: server.gauge.begun == 20)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await until(lambda: server.gauge.cancelled == 20)
        await server.close()

    asyncio.run(scenario())


def test_a_body_must_say_that_it_is_json() -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; b=x"):
        sent = request("/echo", ECHO).replace(JSON.encode(), kind.encode())
        status, _, body = exchanged(sent)
        assert (status, b"send Content-Type: application/json" in body) == (415, True)
    with_charset = request("/echo", ECHO).replace(JSON.encode(), b"Application/JSON; charset=utf-8")
    assert exchanged(with_charset)[0] == 200
    assert exchanged(request("/healthz", method="GET").replace(JSON.encode(), b""))[0] == 200


@for_each(
    "header",
    ["Origin: https://attacker.example", "Sec-Fetch-Site: cross-site", "Host: attacker.example"],
)
def test_a_web_page_is_not_answered(header: str) -> None:
    name = header.partition(":")[0]
    lines = request("/echo", ECHO).decode().splitlines()
    sent = "\r\n".join([*(line for line in lines[:-2] if not line.startswith(name)), header])
    status, _, body = exchanged(f"{sent}\r\n\r\n".encode() + ECHO)
    assert (status, b"error" in body) == (403, True)


def test_the_name_of_a_rollout_in_the_path_is_not_part_of_the_route() -> None:
    for prefix in ("/ng-rollout/7-0", "/ng-rollout/7-0-a1/training-token-capture"):
        status, _, body = exchanged(request(f"{prefix}/echo", ECHO))
        assert (status, body) == (200, b"hello")
    assert exchanged(request("/ng-rollout/7-0", ECHO))[0] == 404


def test_a_body_that_is_nested_too_deeply_is_refused_on_every_route() -> None:
    for path in ("/echo", "/seed_session", "/verify", "/aggregate_metrics"):
        body = b'{"words": %b%b}' % (b"[" * 100_000, b"]" * 100_000)
        status, _, said = exchanged(request(path, body))
        assert (status, b"it is nested too deeply" in said) == (400, True)


class EndlessParts:
    """One part, and then a wait for the next one."""

    def __init__(self) -> None:
        self.closed = 0
        self._sent = False

    def __aiter__(self) -> "EndlessParts":
        return self

    async def __anext__(self) -> bytes:
        if self._sent:
            await asyncio.sleep(300)
        self._sent = True
        return b"data: 1\n\n"

    async def aclose(self) -> None:
        self.closed += 1


@for_each("leaves", [False, True])
def test_a_stream_ends_at_the_deadline_or_with_its_client_and_never_as_if_it_were_whole(
    leaves: bool,
) -> None:
    async def scenario() -> None:
        server, parts = workshop(request_timeout=30.0 if leaves else 0.3), EndlessParts()

        async def stream(_: Request) -> Answer:
            return Answer(200, content_type="text/event-stream", parts=parts)

        server.route("POST", "/stream", stream)
        await server.start()
        async with listening(server) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request("/stream", b"{}"))
            await reader.readuntil(b"data: 1\n\n\r\n")
            if not leaves:
                assert await reader.read() == b""  # without the chunk that ends a whole body
            writer.transport.abort()
            await until(lambda: parts.closed == 1)
        await server.close()

    asyncio.run(scenario())
