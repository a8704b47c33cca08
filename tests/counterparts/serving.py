"""The server's side of HTTP, on threads, with nothing but `http.server`."""

import json
import select
import socket
import time
from collections.abc import Callable
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.counterparts.life import begin


class Request(NamedTuple):
    """What a caller sent, and the connection it waits on."""

    method: str
    path: str
    headers: dict[str, str]
    cookies: dict[str, str]
    body: bytes
    connection: socket.socket

    def json(self) -> Any:
        return json.loads(self.body)

    def caller_leaves_within(self, seconds: float) -> bool:
        """Wait for the caller to close the connection, and say whether it did."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.connection], [], [], left)[0]:
                try:
                    return not self.connection.recv(1, socket.MSG_PEEK)
                except ConnectionError:
                    return True
        return False


class Answer(NamedTuple):
    """What the caller gets."""

    status: int
    body: bytes
    content_type: str = "application/json"
    set_cookies: tuple[str, ...] = ()

    @classmethod
    def of(cls, body: object, status: int = 200, *set_cookies: str) -> "Answer":
        content = json.dumps(body, ensure_ascii=False).encode()
        return cls(status, content, set_cookies=set_cookies)

    @classmethod
    def plain(cls, text: str, status: int = 200, *set_cookies: str) -> "Answer":
        return cls(status, text.encode(), "text/plain; charset=utf-8", set_cookies)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Small writes must not wait for the caller's acknowledgements.
    disable_nagle_algorithm = True
    wbufsize = -1

    handle_request: Callable[[Request], Answer | None]

    def do_GET(self) -> None:
        self._exchange()

    def do_POST(self) -> None:
        self._exchange()

    def _exchange(self) -> None:
        cookies: SimpleCookie = SimpleCookie(self.headers.get("cookie", ""))
        request = Request(
            self.command,
            self.path,
            {name.lower(): value for name, value in self.headers.items()},
            {name: morsel.value for name, morsel in cookies.items()},
            self.rfile.read(int(self.headers.get("content-length", 0))),
            self.connection,
        )
        answer = type(self).handle_request(request)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("content-type", answer.content_type)
        self.send_header("content-length", str(len(answer.body)))
        for cookie in answer.set_cookies:
            self.send_header("set-cookie", cookie)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as in the base class)
        """Say nothing: whoever wants to know asks for what was recorded."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(
    handle: Callable[[Request], Answer | None], port: int, *, end_with_stdin: bool = False
) -> None:
    """Serve until killed. `None` from `handle` means that the caller has left."""
    handler = type("Handler", (_Handler,), {"handle_request": staticmethod(handle)})
    with _Server(("127.0.0.1", port), handler) as server:
        begin(server.server_address[1], end_with_stdin=end_with_stdin)
        server.serve_forever()
