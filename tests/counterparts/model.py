"""A model server on bare asyncio: `/v1/responses`, `/v1/chat/completions`, `/v1/models`.

    python -m tests.counterparts.model --port 0 [--mode script|bench] [--latency SECONDS]

`script` plays what the user's text says (see `script.py`), sets a cookie that changes with every
answer, and remembers its requests (`GET /_requests`). `bench` is as cheap as a model server can be:
one call of `get_weather`, then an answer, both made beforehand, and no JSON is read: what it costs
is not what is measured. In both modes `GET /_stats` counts requests, those in flight together, and
those whose caller left before the answer.

HTTP is read by hand from an `asyncio.Protocol`: a request is a head and `Content-Length` bytes, and
connections are kept alive.
"""

import asyncio
import resource
from typing import cast

from tests.counterparts.answers import error
from tests.counterparts.life import begin, parser
from tests.counterparts.minds import BenchMind, Mind, ScriptMind, message

BACKLOG = 4_096


class Stats:
    """What `GET /_stats` tells."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0
        self.in_flight = 0
        self.peak_in_flight = 0
        self.disconnects = 0


class Connection(asyncio.Protocol):
    """One connection: a request at a time, in the order in which they come."""

    def __init__(self, mind: Mind, stats: Stats, loop: asyncio.AbstractEventLoop):
        self._mind = mind
        self._stats = stats
        self._loop = loop
        self._received = b""
        self._pending: asyncio.TimerHandle | None = None
        self._closing = False
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._stats.connections += 1

    def connection_lost(self, _problem: Exception | None) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
            self._stats.in_flight -= 1
            self._stats.disconnects += 1

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        while self._pending is None and self._take_request():
            pass

    def _take_request(self) -> bool:
        """Answer the first request that was received whole; says whether there was one."""
        head, mark, rest = self._received.partition(b"\r\n\r\n")
        if not mark:
            return False
        fields = head.lower()
        _, found, value = fields.partition(b"\r\ncontent-length:")
        if b"\r\ntransfer-encoding:" in fields:
            self._transport.write(message(411, error("send Content-Length, not chunks")))
            self._transport.close()
            return False
        length = int(value.partition(b"\r\n")[0]) if found else 0
        if len(rest) < length:
            return False
        self._received = rest[length:]
        self._closing = b"\r\nconnection: close" in fields
        if head.startswith(b"GET /_stats "):
            self._send(message(200, vars(self._stats)))
            return True
        reply, delay = self._mind.reply(head, rest[:length])
        stats = self._stats
        stats.requests += 1
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        if delay:
            self._pending = self._loop.call_later(delay, self._answer, reply)
        else:
            stats.in_flight -= 1
            self._send(reply)
        return True

    def _answer(self, reply: bytes) -> None:
        self._pending = None
        self._stats.in_flight -= 1
        self._send(reply)
        if self._received:
            self.data_received(b"")

    def _send(self, reply: bytes) -> None:
        self._transport.write(reply)
        if self._closing:
            self._transport.close()


def allow_many_connections() -> None:
    """A common default of 1,024 open files is too few for a crowd of callers."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def serve(mind: Mind, port: int, *, end_with_stdin: bool) -> None:
    stats = Stats()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(mind, stats, loop), "127.0.0.1", port, backlog=BACKLOG
    )
    begin(server.sockets[0].getsockname()[1], end_with_stdin=end_with_stdin)
    await server.serve_forever()


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - not on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--mode", choices=["script", "bench"], default="script")
    options.add_argument("--latency", type=float, default=0.0, help="seconds to each answer")
    chosen = options.parse_args()
    mind: Mind = (BenchMind if chosen.mode == "bench" else ScriptMind)(chosen.latency)
    allow_many_connections()
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(serve(mind, chosen.port, end_with_stdin=chosen.end_with_stdin))


if __name__ == "__main__":
    main()
