"""A model endpoint that misbehaves on command, over real sockets.

It speaks HTTP/1.1 by hand, so that it can also speak it badly. Each request that arrives plays the
next step of the script; when the script is over, requests are answered well:

    async with FaultyModel([reply(429, headers={"retry-after": "1"}), reset()]) as model:
        ...  # call model.base_url: a 429, a reset connection, and then answers

`in_background` runs one beside a test that has no event loop of its own.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

OVERFLOWS: dict[str, tuple[int, dict[str, Any]]] = {
    "openai chat": (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4097 tokens. However, your "
                "messages resulted in 6988 tokens.",
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
    ),
    "openai responses": (
        400,
        {
            "error": {
                "message": "Your input exceeds the context window of this model.",
                "type": "invalid_request_error",
                "param": "input",
                "code": "context_length_exceeded",
            }
        },
    ),
    "vllm, older": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 8192 tokens. However, you requested "
            "8203 tokens (7691 in the messages, 512 in the completion).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "vllm, newer": (
        400,
        {
            "error": {
                "message": "You passed 99073 input tokens and requested 32000 output tokens. "
                "However, the model's context length is only 131072 tokens.",
                "type": "BadRequestError",
                "param": "input_tokens",
                "code": 400,
            }
        },
    ),
    "vllm, token ids": (
        400,
        {
            "error": {
                "message": "The decoder prompt (length 10127) is longer than the maximum model "
                "length of 8192.",
                "type": "BadRequestError",
                "code": 400,
            }
        },
    ),
    "vllm, no room for an answer": (
        400,
        {"object": "error", "message": "max_tokens must be at least 1, got -186.", "code": 400},
    ),
    "sglang": (
        400,
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length "
            "(40960 tokens).",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "sglang scheduler": (
        400,
        {
            "object": "error",
            "message": "Input length (160062 tokens) exceeds the maximum allowed length "
            "(59862 tokens).",
        },
    ),
    "llama.cpp": (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (4390 tokens) exceeds the available context size (4096 "
                "tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 4390,
                "n_ctx": 4096,
            }
        },
    ),
    "llama.cpp while generating": (
        500,
        {
            "error": {
                "code": 500,
                "message": "Context size has been exceeded.",
                "type": "server_error",
            }
        },
    ),
    "llama-cpp-python": (
        500,
        {"error": {"message": "Requested tokens (2285) exceed context window of 2048"}},
    ),
    "anthropic": (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 213462 tokens > 200000 maximum",
            },
        },
    ),
    "text generation inference": (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
            "error_type": "validation",
        },
    ),
}
"""How servers in use word a conversation that is too long: status and body, by server."""

_REASONS = {200: "OK", 429: "Too Many Requests"}
_LONGEST_HANG = 3600.0


@dataclass(frozen=True)
class ModelRequest:
    """What arrived; `port` is the caller's, the same for all requests of one connection."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Exchange:
    """One request and the connection it came on."""

    request: ModelRequest
    model: "FaultyModel"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def caller_leaves(self, within: float) -> bool:
        """Wait so long; True as soon as the caller has gone away."""
        try:
            async with asyncio.timeout(within):
                await self.reader.read(1)
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        self.model.disconnected()
        return True

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


Step = Callable[[Exchange], Awaitable[bool]]
"""Plays one request; True when the connection may carry another."""

Answer = Callable[[ModelRequest], Mapping[str, Any]]


def well_answered(request: ModelRequest) -> Mapping[str, Any]:
    """A short answer in the format of the path that was asked for."""
    if request.path.endswith("/models"):
        return {"object": "list", "data": [{"id": "faulty", "object": "model"}]}
    if request.path.endswith("/chat/completions"):
        said = {"role": "assistant", "content": "Fine."}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "faulty",
            "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        }
    text = {"type": "output_text", "text": "Fine.", "annotations": []}
    message = {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "faulty",
        "output": [{"id": "msg_1", **message}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }


def reply(
    status: int = 200, body: object = None, *, headers: Mapping[str, str] | None = None
) -> Step:
    """Answer with this status and body: bytes as they are, anything else as JSON."""

    async def play(exchange: Exchange) -> bool:
        await exchange.send(_message(status, _encoded(body), headers or {}))
        return True

    return play


def answer(with_: Answer = well_answered) -> Step:
    """Answer well."""

    async def play(exchange: Exchange) -> bool:
        await exchange.send(_message(200, _encoded(with_(exchange.request)), {}))
        return True

    return play


def error(status: int, message: str, **more: object) -> Step:
    """Answer with an error in OpenAI's format."""
    return reply(status, {"error": {"message": message, **more}})


def slow(seconds: float, then: Step | None = None) -> Step:
    """Wait before the first byte, unless the caller goes away, and then play another step."""

    async def play(exchange: Exchange) -> bool:
        if await exchange.caller_leaves(within=seconds):
            return False
        return await (then or answer())(exchange)

    return play


def hang() -> Step:
    """Take the request and never answer."""
    return slow(_LONGEST_HANG)


def stream(*events: bytes, then: Step | None = None) -> Step:
    """Answer with a stream of these events; `then` plays in place of its end."""

    async def play(exchange: Exchange) -> bool:
        await exchange.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        for event in events:
            await exchange.send(b"%x\r\n%b\r\n" % (len(event), event))
        if then is not None:
            return await then(exchange)
        await exchange.send(b"0\r\n\r\n")
        return True

    return play


def reset() -> Step:
    """Reset the connection in place of an answer."""

    async def play(exchange: Exchange) -> bool:
        _abort(exchange.writer)
        return False

    return play


def reset_in_body() -> Step:
    """Reset the connection in the middle of the answer."""

    async def play(exchange: Exchange) -> bool:
        whole = _message(200, _encoded(well_answered(exchange.request)), {})
        await exchange.send(whole[:-20])
        # A reset may overtake what was sent; let the caller read the first part.
        await asyncio.sleep(0.02)
        _abort(exchange.writer)
        return False

    return play


def truncated() -> Step:
    """Promise a length, send less, and close the connection in good order."""

    async def play(exchange: Exchange) -> bool:
        await exchange.send(_message(200, _encoded(well_answered(exchange.request)), {})[:-20])
        return False

    return play


def not_http() -> Step:
    """Answer in another language."""

    async def play(exchange: Exchange) -> bool:
        await exchange.send(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        return False

    return play


class FaultyModel:
    """A server on a free port of the loopback; an async context manager."""

    def __init__(
        self,
        script: Iterable[Step] = (),
        otherwise: Step | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.script = deque(script)
        self.requests: list[ModelRequest] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.disconnects = 0
        self.port = 0
        self._otherwise = otherwise or answer()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Event()
        self._disconnected = asyncio.Event()
        self._handlers: set[asyncio.Task[Any]] = set()

    @property
    def base_url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, backlog=1024, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers)
        await self._server.wait_closed()

    def disconnected(self) -> None:
        self.disconnects += 1
        self._disconnected.set()

    async def see_request(self, within: float = 10.0) -> None:
        """Wait until a request has arrived. Raises TimeoutError."""
        async with asyncio.timeout(within):
            await self._arrived.wait()

    async def see_disconnect(self, within: float = 10.0) -> None:
        """Wait until a caller has gone away before it was answered. Raises TimeoutError."""
        async with asyncio.timeout(within):
            await self._disconnected.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        # The server's own cancellation ends here, so that closing it stays silent.
        with suppress(asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            while await self._exchange(reader, writer):
                pass
        self._handlers.discard(task)
        writer.close()
        with suppress(asyncio.CancelledError, ConnectionError):
            await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        port = writer.get_extra_info("peername")[1]
        request = await _read_request(reader, port)
        self.requests.append(request)
        self._arrived.set()
        step = self.script.popleft() if self.script else self._otherwise
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await step(Exchange(request, self, reader, writer))
        finally:
            self.in_flight -= 1


@contextmanager
def in_background(model: FaultyModel) -> Iterator[FaultyModel]:
    """The server in a thread with an event loop of its own."""
    ready = threading.Event()
    done: list[Callable[[], object]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        done.append(lambda: loop.call_soon_threadsafe(stop.set))
        async with model:
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(60), "the server did not start"
        yield model
    finally:
        for stop in done:
            stop()
        thread.join(60)


def unused_port() -> int:
    """A port of the loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _read_request(reader: asyncio.StreamReader, port: int) -> ModelRequest:
    first = await reader.readexactly(1)
    if not first.isalpha():
        raise ConnectionError("the caller does not speak HTTP")
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    lines = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, value in lines}
    if headers.get("transfer-encoding") == "chunked":
        return ModelRequest(method, path, headers, await _read_chunks(reader), port)
    length = int(headers.get("content-length", "0"))
    return ModelRequest(method, path, headers, await reader.readexactly(length), port)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body


def _encoded(body: object) -> bytes:
    return body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()


def _message(status: int, body: bytes, headers: Mapping[str, str]) -> bytes:
    head = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Whatever')}"]
    lines += [f"{name}: {value}" for name, value in head.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with a reset: a socket that may not linger throws away what it has."""
    if not writer.transport.is_closing():
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
