"""Operations of worker processes: plain functions that make one request to the browser server.

They block (`http.client`), and their arguments and results are plain data that crosses between
processes: text, numbers, bytes, lists and dictionaries. `webgym.client.isolation` sends them to its
workers through `perform`; any other pool of processes can run them as well.

*Time.* `due` is the deadline of the server's response, on the monotonic clock that all processes of
a machine share. The server gets the remaining time; the worker waits a little longer.

*Errors* are those of `webgym.browser.contract.errors`, as in the client of this process. A request
that changes nothing is repeated a few times where the server does not respond.

*Trust.* The content of a page is read and checked here, in the worker: a step is returned as the
MessagePack of a `StepAnswer`, and nothing of the server's JSON leaves the worker.
"""

import os
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pkgutil import resolve_name
from socket import socket
from typing import Any, NoReturn, TypedDict, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from webgym.actions.space import Viewport
from webgym.browser.contract.answers import ImageFormat, Lease, StepAnswer
from webgym.browser.contract.commands import (
    LONGEST_DEADLINE,
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
from webgym.browser.contract.profile import RECORDING_TYPES, RecordingKind, StorageState
from webgym.browser.responses import (
    CONNECT_SECONDS,
    LARGEST_ANSWER,
    REPEATS,
    SLACK,
    RawResponse,
    Reader,
    json_reader,
    picture_reader,
)

TIMEOUT_HEADER = "x-rollgym-timeout"
"""As in `rollgym.servers.context`, which would import all server frameworks in every worker."""
BLOCK = 1 << 16
SHORTEST_DEADLINE = 0.001
OUT_OF_MEMORY = 70
"""The exit status of a worker that reached its memory ceiling."""

T = TypeVar("T")
_LEASE = json_reader(Lease)
_RESULT = json_reader(dict[str, object])
_STEP = json_reader(StepAnswer)
_VIEWPORT = json_reader(Viewport)
_STORAGE = json_reader(StorageState)
_ANYTHING = json_reader(object)


class ServerAddress(TypedDict):
    """The URL of the browser server, and the headers of every request to it."""

    url: str
    headers: dict[str, str]


class SessionAddress(TypedDict):
    """A session that was acquired."""

    instance_id: str
    node: str


class ViewportSize(TypedDict):
    """The size of a viewport, in pixels."""

    width: int
    height: int


class OperationResult(TypedDict, total=False):
    """The result of a call: `value`, or the `type` and `message` of an error."""

    value: Any
    type: str
    message: str
    retry_after: float | None


def perform(operation: str, arguments: list[Any]) -> OperationResult:
    """Call the function `module:name`; the errors of the contract become data.

    A worker that runs out of memory ends, because its state is unknown.
    """
    function = resolve_name(operation)
    try:
        return {"value": function(*arguments)}
    except (*WIRE_ERRORS, ServerUnreachableError) as error:
        retry_after = getattr(error, "retry_after", None)
        return {"type": error.type, "message": str(error), "retry_after": retry_after}
    except MemoryError:
        _exit_out_of_memory()


def allocate(
    server: ServerAddress,
    due: float,
    lifetime_mins: float,
    wait_seconds: float,
    profile: dict[str, Any] | None = None,
) -> SessionAddress:
    """Acquire a session, waiting for one. Raises NoSessionError where none was free in time."""
    query = {"lifetime_mins": f"{lifetime_mins:g}", "wait_seconds": f"{wait_seconds:.3f}"}
    lease = _ask(server, "POST", "/get", _LEASE, due, query=query, body=profile or None)
    return {"instance_id": lease.instance_id, "node": lease.node}


def release(server: ServerAddress, due: float, session: SessionAddress) -> None:
    """Release a session; a session that has ended already is ignored."""
    try:
        _ask(server, "POST", "/reset", _ANYTHING, due, query=_names(session), repeatable=True)
    except SessionLostError:
        return


def step(
    server: ServerAddress,
    due: float,
    session: SessionAddress,
    command: dict[str, dict[str, Any]],
    observe: dict[str, Any],
) -> bytes:
    """A command (`{name: arguments}`, or none), then an observation: MessagePack."""
    body = {**session, **command, "observe": observe}
    return msgspec.msgpack.encode(_ask(server, "POST", "/step", _STEP, due, body=body))


def execute(
    server: ServerAddress, due: float, session: SessionAddress, command: dict[str, dict[str, Any]]
) -> dict[str, object]:
    """Carry out a command (`{name: arguments}`). Raises CommandError where the page prevents it."""
    return _ask(server, "POST", "/execute", _RESULT, due, body={**session, **command})


def navigate(
    server: ServerAddress, due: float, session: SessionAddress, url: str
) -> dict[str, object]:
    """Open a page. Raises NavigationError, NavigationRefusedError."""
    return execute(server, due, session, {VisitPage.command: {"url": url}})


def page_metadata(server: ServerAddress, due: float, session: SessionAddress) -> dict[str, object]:
    """The address, title and scroll position of the page."""
    return execute(server, due, session, {GetPageMetadata.command: {}})


def accessibility_tree(
    server: ServerAddress, due: float, session: SessionAddress
) -> dict[str, object]:
    """The accessibility tree of the page."""
    return execute(server, due, session, {GetAccessibilityTree.command: {}})


def screenshot(
    server: ServerAddress,
    due: float,
    session: SessionAddress,
    mode: InteractionMode,
    form: ImageFormat,
) -> bytes:
    """A screenshot of the page."""
    query = _names(session) | {"interaction_mode": mode, "format": form}
    read = picture_reader(f"image/{form}")
    return _ask(server, "GET", "/screenshot", read, due, query=query, repeatable=True).data


def recording(
    server: ServerAddress, due: float, session: SessionAddress, kind: RecordingKind
) -> bytes:
    """The HAR or the video so far."""
    query = _names(session) | {"kind": kind}
    if kind == "har":
        har = _ask(server, "GET", "/recording", _ANYTHING, due, query=query, repeatable=True)
        return msgspec.json.encode(har)
    read = picture_reader(RECORDING_TYPES[kind])
    return _ask(server, "GET", "/recording", read, due, query=query, repeatable=True).data


def storage_state(server: ServerAddress, due: float, session: SessionAddress) -> dict[str, object]:
    """Cookies and local storage."""
    query = _names(session)
    state = _ask(server, "GET", "/storage_state", _STORAGE, due, query=query, repeatable=True)
    plain: dict[str, object] = msgspec.to_builtins(state)
    return plain


def metadata(server: ServerAddress, due: float, session: SessionAddress) -> ViewportSize:
    """The size of the viewport."""
    query = _names(session)
    size = _ask(server, "GET", "/metadata", _VIEWPORT, due, query=query, repeatable=True)
    return {"width": size.width, "height": size.height}


def _ask(
    server: ServerAddress,
    method: str,
    path: str,
    read: Reader[T],
    due: float,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, object] | None = None,
    repeatable: bool = False,
) -> T:
    """The response, decoded. Raises the error in it, ServerUnreachableError, StepDeadlineError."""
    for pause in (*REPEATS, None) if repeatable else (None,):
        left = due - time.monotonic()
        if left <= 0:
            raise StepDeadlineError(f"there was no time left for {method} {path}")
        sent = min(max(left, SHORTEST_DEADLINE), LONGEST_DEADLINE)
        content = None
        if body is not None:
            content = msgspec.json.encode({**body, "deadline_seconds": sent})
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            return read(_send(server, method, target, content, due))
        except ServerUnreachableError:
            if pause is None or time.monotonic() + pause >= due:
                raise
            time.sleep(pause)
    raise AssertionError("the last attempt returns or raises")


def _send(
    server: ServerAddress, method: str, target: str, body: bytes | None, due: float
) -> RawResponse:
    """One request over a new connection: an idle one may be closed at any moment."""
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
        sock = connection.sock  # the response takes it away from the connection
        _limit(sock, due)
        connection.request(method, f"{url.path.rstrip('/')}{target}", body, headers)
        return _answer(connection.getresponse(), sock, due)
    except TimeoutError as error:
        raise ServerUnreachableError(
            f"{server['url']} did not respond to {method} {place} within {left:.1f} s"
        ) from error
    except (OSError, HTTPException) as error:
        is_down = isinstance(error, ConnectionRefusedError)
        hint = ": `rollgym browser serve` starts a server" if is_down else ""
        why = f"({type(error).__name__}: {error}){hint}"
        raise ServerUnreachableError(
            f"{server['url']} did not respond to {method} {place} {why}"
        ) from error
    finally:
        connection.close()


def _answer(response: HTTPResponse, sock: socket, due: float) -> RawResponse:
    body = bytearray()
    while block := response.read1(BLOCK):
        body += block
        if len(body) > LARGEST_ANSWER:
            raise HTTPException(f"the response has more than {LARGEST_ANSWER} bytes")
        if response.isclosed():  # from Python 3.13 the last block closes the socket, too
            break
        _limit(sock, due)
    if response.length:
        raise HTTPException(f"the response ended {response.length} bytes early")
    media_type = response.headers.get_content_type()
    return RawResponse(
        response.status, media_type, response.getheader("retry-after", ""), bytes(body)
    )


def _limit(sock: socket, due: float) -> None:
    """Bound the next wait for the server by the remaining time, with some slack."""
    left = due + SLACK - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


def _names(session: SessionAddress) -> dict[str, str]:
    return {"instance_id": session["instance_id"], "node": session["node"]}


def _exit_out_of_memory() -> NoReturn:
    # Nothing can be allocated any more, so neither logging nor exceptions work.
    os.write(2, b"the worker reached its memory ceiling")
    os._exit(OUT_OF_MEMORY)
