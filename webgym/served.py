"""Servers of webgym commands: the browser server, the sites, MiniWoB++ and the policy.

The options and the waiting of their commands are here too. Only what the options need is imported
at the top, so that `--help` answers at once.
"""

import asyncio
import errno
import logging
import os
import re
import signal
from argparse import ArgumentParser
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from rollgym.cli.process import INTERRUPTED, exit_now, port_number, say

if TYPE_CHECKING:
    from aiohttp import web

SHUTDOWN_TIMEOUT = 0.5
STOP_SECONDS = 15.0
PARENT_INTERVAL = 1.0
_LOGGER = logging.getLogger(__name__)
_SESSION_NAME = re.compile(r"[A-Za-z0-9]{1,64}")


def add_address_options(parser: ArgumentParser, host: str, port: int) -> None:
    """`--host` and `--port`, with these defaults."""
    parser.add_argument("--host", default=host, help=f"address to listen on (default: {host})")
    port_help = f"port to listen on (default: {port}; 0: any free port)"
    parser.add_argument("--port", type=port_number, default=port, help=port_help)


async def serve_until_signal(
    server: AbstractAsyncContextManager[str], message: Callable[[str], str]
) -> int:
    """Serve until a signal, and print the message for the URL once ready; the exit status."""
    from rollgym.engine import stopping_on_signals  # noqa: PLC0415

    stop = asyncio.Event()
    with stopping_on_signals(stop.set, lambda: exit_now(0)):
        async with server as url:
            say(message(url))
            await stop.wait()
    return 0


async def until_stopped(work: Coroutine[Any, Any, None]) -> int:
    """Run a coroutine until it ends, a signal comes or the parent process ends.

    A server without its parent would keep its browsers for ever; one that was started with nohup
    stays up. Returns the exit status. Raises what the coroutine raises.
    """
    from rollgym.engine import stopping_on_signals  # noqa: PLC0415

    stop, parent = asyncio.Event(), os.getppid()
    with stopping_on_signals(stop.set, lambda: exit_now(INTERRUPTED)):
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(_parent_ended(parent))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({working, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, watching, stopping):
                task.cancel()
            await asyncio.wait({working, watching, stopping}, timeout=STOP_SECONDS)
        if working.done() and not working.cancelled():
            working.result()
    return 0


async def _parent_ended(parent: int) -> None:
    """Returns when the process that started this one has ended; never after nohup."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or parent == 1:
        await asyncio.Event().wait()
    while os.getppid() == parent:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(PARENT_INTERVAL)
    _LOGGER.warning("stopping, because the process that started this server has ended (use nohup)")


@asynccontextmanager
async def served(
    application: "web.Application", host: str, port: int, error_type: type[Exception]
) -> AsyncIterator[str]:
    """Serve an application until the end of the block; gives its URL, without a slash at its end.

    Port 0 is any free port. Raises an error of this type if it cannot listen there.
    """
    from rollgym.servers.bounds import application_runner, serving  # noqa: PLC0415
    from rollgym.servers.config.instances import Address, listening_socket  # noqa: PLC0415

    try:
        bound = listening_socket(Address(host, port))
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        raise error_type(
            f"cannot listen on {host} port {port} ({error.strerror or error}): "
            + ("choose another with --port, or 0 for any" if in_use else "choose another --host")
        ) from error
    url = Address(host, bound.getsockname()[1]).url
    async with serving(application_runner(application, shutdown_timeout=SHUTDOWN_TIMEOUT), bound):
        yield url


def is_session_name(text: str) -> bool:
    """Whether the text can name a session of a task's server: 1 to 64 letters and digits."""
    return _SESSION_NAME.fullmatch(text) is not None


def new_session_name() -> str:
    """A session name that cannot be guessed."""
    return token_hex(16)


def json_response(content: object, status: HTTPStatus = HTTPStatus.OK) -> "web.Response":
    """A response with JSON."""
    import msgspec  # noqa: PLC0415
    from aiohttp import web  # noqa: PLC0415

    return web.Response(
        body=msgspec.json.encode(content), content_type="application/json", status=status
    )
