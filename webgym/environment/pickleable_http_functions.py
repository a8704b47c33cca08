"""What worker processes can be asked to do: one request to the browser server each, and waiting.

They are plain functions of a module, they wait (`http.client`), and what goes in and comes out is
plain data that crosses from one process to another: text, numbers, bytes, lists and dictionaries.
`webgym.environment.process_isolator` sends them to its workers, through `perform`; a pool of
processes of any other kind can run them as well.

*Time.* `due` is when the server's answer is due, on the monotonic clock that all processes of a
machine share. The server is told; a little later we stop waiting.

*Errors* are those of `webgym.browser.contract.errors`, as the client of this process raises them.
A request that changes nothing is made again a few times where there was no answer.

*Trust.* What a page put into an answer is read and checked here, in the worker: a step comes back
as the MessagePack of a `StepAnswer`, and nothing of the server's JSON goes further.
"""

import importlib
import os
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from typing import Any, NoReturn, TypedDict, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from webgym.browser.contract.answers import ImageFormat, Lease, StepAnswer
from webgym.browser.contract.commands import (
    GetAccessibilityTree,
    GetPageMetadata,
    InteractionMode,
    VisitPage,
)
from webgym.browser.contract.errors import (
    WIRE_ERRORS,
    ServerUnreachableError,
    SessionLostError,
    StepDeadlineError,
)
from webgym.browser.exchange.request import LONGEST_DEADLINE
from webgym.browser.reading import (
    CONNECT_SECONDS,
    LARGEST_ANSWER,
    REPEATS,
    SLACK,
    Answer,
    Reader,
    picture_reader,
    reader,
)
from webgym.environment.actions import Viewport

TIMEOUT_HEADER = "x-rollgym-timeout"
"""As in `rollgym.servers.context`, which would bring all server frameworks into every worker."""
BLOCK = 1 << 16
SHORTEST_DEADLINE = 0.001
OUT_OF_MEMORY = 70
"""The exit status of a worker that reached its memory ceiling."""

T = TypeVar("T")
_LEASE = reader(Lease)
_RESULT = reader(dict[str, object])
_STEP = reader(StepAnswer)
_VIEWPORT = reader(Viewport)
_ANYTHING = reader(object)


class Server(TypedDict):
    """Where the browser server is, and the headers that every request to it has."""

    url: str
    headers: dict[str, str]


class Session(TypedDict):
    """A session that was handed out."""

    instance_id: str
    node: str


class Size(TypedDict):
    """Of a viewport, in pixels."""

    width: int
    height: int


class Performed(TypedDict, total=False):
    """What came of a call: `value`, or the error's `type` with its message."""

    value: Any
    type: str
    message: str
    retry_after: float | None


def perform(operation: str, arguments: list[Any]) -> Performed:
    """Call the function `module:name`; the errors of the contract become data.

    A worker whose memory is used up ends, because nobody knows what is left of it.
    """
    module, _, name = operation.partition(":")
    function = getattr(importlib.import_module(module), name)
    try:
        return {"value": function(*arguments)}
    except (*WIRE_ERRORS, ServerUnreachableError) as error:
        retry_after = getattr(error, "retry_after", None)
        return {"type": error.type, "message": str(error), "retry_after": retry_after}
    except MemoryError:
        _give_up()


def allocate(server: Server, due: float, lifetime_mins: float, wait_seconds: float) -> Session:
    """Take a session, waiting for one. Raises NoSessionError where none was free in time."""
    query = {"lifetime_mins": f"{lifetime_mins:g}", "wait_seconds": f"{wait_seconds:.3f}"}
    lease = _ask(server, "POST", "/get", _LEASE, due, query=query)
    return {"instance_id": lease.instance_id, "node": lease.node}


def release(server: Server, due: float, session: Session) -> None:
    """Give a session back; nothing happens where it is gone already."""
    try:
        _ask(server, "POST", "/reset", _ANYTHING, due, query=_names(session), repeatable=True)
    except SessionLostError:
        return


def step(
    server: Server,
    due: float,
    session: Session,
    command: dict[str, dict[str, Any]],
    observe: dict[str, Any],
) -> bytes:
    """A command (`{name: arguments}`, or none), then what is to be seen: MessagePack."""
    body = {**session, **command, "observe": observe}
    return msgspec.msgpack.encode(_ask(server, "POST", "/step", _STEP, due, body=body))


def execute(
    server: Server, due: float, session: Session, command: dict[str, dict[str, Any]]
) -> dict[str, object]:
    """Carry out a command (`{name: arguments}`). Raises CommandError where the page refuses."""
    return _ask(server, "POST", "/execute", _RESULT, due, body={**session, **command})


def navigate(server: Server, due: float, session: Session, url: str) -> dict[str, object]:
    """Open a page. Raises NavigationError, NavigationRefusedError."""
    return execute(server, due, session, {VisitPage.command: {"url": url}})


def page_metadata(server: Server, due: float, session: Session) -> dict[str, object]:
    """The address, title and scroll position of the page."""
    return execute(server, due, session, {GetPageMetadata.command: {}})


def accessibility_tree(server: Server, due: float, session: Session) -> dict[str, object]:
    """The page as assistive programs see it."""
    return execute(server, due, session, {GetAccessibilityTree.command: {}})


def screenshot(
    server: Server, due: float, session: Session, mode: InteractionMode, form: ImageFormat
) -> bytes:
    """A picture of the page."""
    query = _names(session) | {"interaction_mode": mode, "format": form}
    read = picture_reader(f"image/{form}")
    return _ask(server, "GET", "/screenshot", read, due, query=query, repeatable=True).data


def metadata(server: Server, due: float, session: Session) -> Size:
    """The size of the viewport."""
    query = _names(session)
    size = _ask(server, "GET", "/metadata", _VIEWPORT, due, query=query, repeatable=True)
    return {"width": size.width, "height": size.height}


def _ask(
    server: Server,
    method: str,
    path: str,
    read: Reader[T],
    due: float,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, object] | None = None,
    repeatable: bool = False,
) -> T:
    """The answer, read. Raises what it reports, ServerUnreachableError or StepDeadlineError."""
    for pause in (*REPEATS, None) if repeatable else (None,):
        left = due - time.monotonic()
        if left <= 0:
            raise StepDeadlineError(f"there was no time left for {method} {path}")
        told = min(max(left, SHORTEST_DEADLINE), LONGEST_DEADLINE)
        content = None
        if body is not None:
            content = msgspec.json.encode({**body, "deadline_seconds": told})
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            return read(_send(server, method, target, content, due))
        except ServerUnreachableError:
            if pause is None or time.monotonic() + pause >= due:
                raise
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _send(server: Server, method: str, target: str, body: bytes | None, due: float) -> Answer:
    """One request over a connection of its own: one that idles may be closed at any moment."""
    left = due - time.monotonic()
    headers = {**server["headers"], TIMEOUT_HEADER: f"{left:.3f}", "Connection": "close"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    url = urlsplit(server["url"])
    kind: Callable[..., HTTPConnection] = (
        HTTPSConnection if url.scheme == "https" else HTTPConnection
    )
    connection = kind(url.hostname, url.port, timeout=min(CONNECT_SECONDS, left + SLACK))
    place = target.partition("?")[0]
    try:
        connection.connect()
        waits = connection.sock  # which its answer takes away from the connection
        _limit(waits, due)
        connection.request(method, f"{url.path.rstrip('/')}{target}", body, headers)
        return _answer(connection.getresponse(), waits, due)
    except TimeoutError as error:
        raise ServerUnreachableError(
            f"{server['url']} gave no answer to {method} {place} within {left:.1f} s"
        ) from error
    except (OSError, HTTPException) as error:
        nobody = isinstance(error, ConnectionRefusedError)
        hint = ": `rollgym browser serve` starts a server" if nobody else ""
        why = f"({type(error).__name__}: {error}){hint}"
        raise ServerUnreachableError(
            f"{server['url']} did not answer {method} {place} {why}"
        ) from error
    finally:
        connection.close()


def _answer(response: HTTPResponse, waits: socket, due: float) -> Answer:
    body = bytearray()
    while block := response.read1(BLOCK):
        body += block
        if len(body) > LARGEST_ANSWER:
            raise HTTPException(f"the answer has over {LARGEST_ANSWER} bytes")
        _limit(waits, due)
    if response.length:
        raise HTTPException(f"the answer ended {response.length} bytes early")
    media_type = response.headers.get_content_type()
    return Answer(response.status, media_type, response.getheader("retry-after", ""), bytes(body))


def _limit(waits: socket, due: float) -> None:
    """No single wait for the server is longer than the time there is, with some slack."""
    left = due + SLACK - time.monotonic()
    if left <= 0:
        raise TimeoutError
    waits.settimeout(left)


def _names(session: Session) -> dict[str, str]:
    return {"instance_id": session["instance_id"], "node": session["node"]}


def _give_up() -> NoReturn:
    # Nothing may be allocated any more, so neither logging nor exceptions will do.
    os.write(2, b"the memory ceiling of the worker was reached")
    os._exit(OUT_OF_MEMORY)
