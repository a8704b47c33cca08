"""The errors of the browser server, as both sides of the wire name them.

*Two families.* A `CommandError` concerns one command: the page did not allow it, the session
continues, and an agent may see the message. All other errors concern the session or the server.
Those that end an episode are also `RolloutError`s, so that a collection records their kind.

*On the wire* an error is `{"status": "error", "message": …, "error": {"type", "message",
"retryable"}}` with the status of its class; `retry_after` also becomes the header `Retry-After`.
`error_named` turns it into the class again for the client.
"""

from typing import ClassVar

import msgspec

from rollgym.records import BrowserError, BrowserUnavailableError, DeadlineError


class CommandError(Exception):
    """One command could not be carried out. The session continues."""

    type: ClassVar[str] = "command_failed"
    status: ClassVar[int] = 422


class UnknownElementError(CommandError):
    """No element has this id now, or it cannot be acted on."""

    type = "unknown_element"


class NavigationError(CommandError):
    """The page could not be opened: unknown host, connection refused, too many redirects…"""

    type = "navigation_failed"


class NavigationRefusedError(CommandError):
    """The network guard does not allow sessions to go there."""

    type = "navigation_refused"
    status = 403


class PageCrashedError(CommandError):
    """The process of the page died. The session is on an empty page and can visit another."""

    type = "page_crashed"
    status = 502


class PageUnresponsiveError(CommandError):
    """The scripts of the page kept it busy until the deadline, so the page was stopped."""

    type = "page_unresponsive"
    status = 504


class BadRequestError(Exception):
    """The request itself is invalid."""

    type: ClassVar[str] = "bad_request"
    status: ClassVar[int] = 400


class UnauthorizedError(Exception):
    """The token is missing or wrong."""

    type: ClassVar[str] = "unauthorized"
    status: ClassVar[int] = 401


class SessionLostError(BrowserError):
    """The session has ended: its browser or node died, it expired, or it was released."""

    type: ClassVar[str] = "session_lost"
    status: ClassVar[int] = 410


class NoSessionError(BrowserUnavailableError):
    """No session was available in time: all are in use, or no node is up."""

    type: ClassVar[str] = "no_session"
    status: ClassVar[int] = 503


class ServerUnreachableError(BrowserUnavailableError):
    """The browser server does not answer. Raised by clients; it never crosses the wire."""

    type: ClassVar[str] = "unreachable"
    status: ClassVar[int] = 503


class StepDeadlineError(DeadlineError):
    """The deadline of a request passed, although the page itself was responsive."""

    type: ClassVar[str] = "deadline"
    status: ClassVar[int] = 504


WireError = (
    CommandError
    | BadRequestError
    | UnauthorizedError
    | SessionLostError
    | NoSessionError
    | StepDeadlineError
)
_KINDS: dict[str, type[WireError]] = {
    kind.type: kind
    for kind in (
        CommandError,
        UnknownElementError,
        NavigationError,
        NavigationRefusedError,
        PageCrashedError,
        PageUnresponsiveError,
        BadRequestError,
        UnauthorizedError,
        SessionLostError,
        NoSessionError,
        StepDeadlineError,
    )
}
WIRE_ERRORS = tuple(_KINDS.values())
"""For `except WIRE_ERRORS`: all errors that can be sent over the wire."""


class WireErrorDetail(msgspec.Struct, frozen=True):
    """An error in the body of an answer."""

    type: str
    message: str
    retryable: bool = False


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of an answer that reports an error."""

    error: WireErrorDetail
    message: str
    status: str = "error"


def error_body(error: WireError) -> bytes:
    """The body of the answer that reports this error."""
    retryable = isinstance(error, SessionLostError | NoSessionError | StepDeadlineError)
    message = str(error)
    return msgspec.json.encode(ErrorBody(WireErrorDetail(error.type, message, retryable), message))


def error_named(type: str, message: str, retry_after: float | None = None) -> WireError:  # noqa: A002 - as on the wire
    """The error to raise for a reported error. An unknown type becomes a CommandError."""
    kind = _KINDS.get(type, CommandError)
    if kind is NoSessionError:
        return NoSessionError(message, retry_after=retry_after)
    return kind(message)
