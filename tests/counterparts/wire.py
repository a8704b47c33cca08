"""JSON over HTTP with cookies, from the caller's side, with nothing but `http.client`."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Mapping
from http.cookies import SimpleCookie
from typing import Any, NamedTuple
from urllib.parse import urlsplit

PATIENCE = 60.0


class Reply(NamedTuple):
    """What came back: a status, the body as it was, and the cookies that were set."""

    status: int
    content_type: str
    body: bytes
    cookies: dict[str, str]

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A server seen from outside, with a cookie jar of its own.

    Threads may call at the same time: each call has its own connection, and the jar keeps the
    cookie that arrived last. With `replaces`, the cookies of an answer are all that the jar keeps,
    so an answer that sets none empties it.
    """

    def __init__(
        self, url: str, cookies: Mapping[str, str] | None = None, *, replaces: bool = False
    ) -> None:
        self.cookies = dict(cookies or {})
        self._address = urlsplit(url)
        self._replaces = replaces

    def post(self, path: str, body: object) -> Reply:
        return self.send("POST", path, json.dumps(body).encode())

    def get(self, path: str) -> Any:
        reply = self.send("GET", path)
        if reply.status != 200:
            raise RuntimeError(f"GET {path} answered {reply.status}: {reply.text}")
        return reply.json()

    def send(self, method: str, path: str, body: bytes | None = None) -> Reply:
        headers = {} if body is None else {"content-type": "application/json"}
        if self.cookies:
            headers["cookie"] = format_cookies(self.cookies)
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=PATIENCE
        )
        try:
            connection.request(method, self._address.path.rstrip("/") + path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        cookies: SimpleCookie = SimpleCookie()
        for line in answer.headers.get_all("set-cookie", []):
            cookies.load(line)
        values = {name: morsel.value for name, morsel in cookies.items()}
        self.cookies = values if self._replaces else self.cookies | values
        return Reply(answer.status, answer.headers.get("content-type", ""), content, values)


def format_cookies(cookies: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def begin_post(
    url: str, path: str, body: object, cookies: Mapping[str, str] | None = None
) -> socket.socket:
    """Send a request without waiting for its answer. To leave is to close the connection."""
    address = urlsplit(url)
    content = json.dumps(body).encode()
    head = [
        f"POST {path} HTTP/1.1",
        f"host: {address.netloc}",
        f"cookie: {format_cookies(cookies or {})}",
        "content-type: application/json",
        f"content-length: {len(content)}",
    ]
    connection = socket.create_connection((address.hostname or "", address.port or 80), PATIENCE)
    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + content)
    return connection


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.02)
