"""Where an exception came from, and whether it may go away.

*Place.* The last frame of a traceback is often inside a library. The author of a plug-in looks for
the line of the plug-in, so frames of this package, of the standard library and of installed
packages are passed over, unless there are no others.

*Transient errors.* Errors of the network, timeouts and busy servers may go away. Client libraries
have error types of their own, so the causes of an exception count too, the HTTP status that such
errors carry, and the names of those that have neither, such as `aiohttp.ServerDisconnectedError`.
"""

import asyncio
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import NamedTuple

TRACEBACK_FRAMES = 25
CAUSE_LIMIT = 8
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500
_NOT_PLUGINS = tuple(
    f"{path}{os.sep}"
    for path in {
        str(Path(__file__).parents[1]),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_FILE_ERRORS = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError)
_HTTPX_ERRORS = ("NetworkError", "RemoteProtocolError", "TimeoutException")
_CONNECTION_ERRORS = frozenset(
    (
        *(("aiohttp", "ClientConnectionError"), ("aiohttp", "ClientPayloadError")),
        *((package, name) for package in ("httpx", "httpx2") for name in _HTTPX_ERRORS),
        *(("openai", "APIConnectionError"), ("anthropic", "APIConnectionError")),
        *(("urllib3", "ProtocolError"), ("websockets", "ConnectionClosed")),
    )
)
"""Errors of client libraries, which need not be installed: the package, and the class or a base."""


class Origin(NamedTuple):
    """`file` and `line` say where a plug-in raised the exception, or called what raised it."""

    traceback: str
    file: str | None
    line: int | None

    @classmethod
    def of(cls, exception: BaseException) -> "Origin":
        """The traceback is rendered without source lines and with a bounded number of frames."""
        entries = [*walk_tb(exception.__traceback__)]
        if not entries:
            return cls("", None, None)
        frame, line = next(filter(_is_plugin, reversed(entries)), entries[-1])
        return cls(_render(entries), encodable(frame.f_code.co_filename), line)


def is_transient(exception: BaseException) -> bool:
    """Whether an error of the network, a timeout or a busy server led to this exception."""
    for error in _chain(exception):
        if isinstance(error, OSError) and not isinstance(error, _FILE_ERRORS):
            return True
        if isinstance(error, asyncio.IncompleteReadError) or _is_connection_error(error):
            return True
        status = _http_status(error)
        if status is not None and (status >= _SERVER_ERROR or status == _TOO_MANY_REQUESTS):
            return True
    return False


def leaves(exception: BaseException) -> list[BaseException]:
    """The members of an exception group, at any depth; of another exception, itself."""
    if not isinstance(exception, BaseExceptionGroup):
        return [exception]
    return [leaf for part in exception.exceptions for leaf in leaves(part)]


def cause_of(exception: BaseException) -> BaseException | None:
    """The exception that a traceback would show before this one."""
    if exception.__cause__ is not None or exception.__suppress_context__:
        return exception.__cause__
    return exception.__context__


def encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """The members of a group, each with its causes."""
    for leaf in leaves(exception)[:CAUSE_LIMIT]:
        error: BaseException | None = leaf
        for _ in range(CAUSE_LIMIT):
            if error is None:
                break
            yield error
            error = cause_of(error)


def _is_connection_error(error: BaseException) -> bool:
    names = {(base.__module__.partition(".")[0], base.__name__) for base in type(error).__mro__}
    return not _CONNECTION_ERRORS.isdisjoint(names)


def _http_status(error: BaseException) -> int | None:
    """The HTTP status in an exception of a client library."""
    try:
        for source in (error, getattr(error, "response", None)):
            for name in ("status_code", "status"):
                status = getattr(source, name, None)
                if isinstance(status, int):
                    return status
    except Exception:  # noqa: BLE001 - its attributes may do anything
        return None
    return None


def _is_plugin(entry: tuple[FrameType, int]) -> bool:
    return not entry[0].f_code.co_filename.startswith(("<", *_NOT_PLUGINS))


def _render(entries: list[tuple[FrameType, int]]) -> str:
    frames = [
        f'File "{encodable(frame.f_code.co_filename)}", line {line}, in {frame.f_code.co_qualname}'
        for frame, line in entries
    ]
    if len(frames) > TRACEBACK_FRAMES:
        half = TRACEBACK_FRAMES // 2
        frames[half:-half] = [f"({len(frames) - 2 * half} more frames)"]
    return "\n".join(frames)
