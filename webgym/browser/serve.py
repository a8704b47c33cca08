"""`rollgym browser serve`: a server that stays up until somebody asks it to stop.

A signal stops it, and the end of whoever started it: a server that was forgotten would keep its
browsers for ever. Who starts it with nohup wants it to stay.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine, Mapping
from typing import Any, NoReturn

import msgspec

from rollgym.cli.exit_statuses import INTERRUPTED
from rollgym.cli.leaving import leave
from rollgym.cli.streams import say
from rollgym.engine import run as run_loop
from rollgym.servers.launch import stopping_on_signals
from webgym.browser.browsers import browsers
from webgym.browser.server import bind, serving, url_of
from webgym.browser.settings import Settings, SettingsError, read_token

STOP_SECONDS = 15.0
PARENT_INTERVAL = 1.0
_NAMES = {"both": "server", "master": "master", "node": "node"}
_LOGGER = logging.getLogger("webgym.browser")


def serve(given: Mapping[str, object]) -> int:
    """Serve with these settings until a signal; the exit status. Raises SettingsError."""
    try:
        settings = msgspec.convert(given, Settings)
    except msgspec.ValidationError as error:
        raise SettingsError(f"a setting is wrong: {error}") from error
    token = read_token()
    settings.check(token)
    log_events()
    return run_loop(until_stopped(_keep_up(settings, token)))


async def until_stopped(work: Coroutine[Any, Any, None]) -> int:
    """Do this until a signal or the end of our parent; the exit status. Raises what it raises."""
    stop, parent = asyncio.Event(), os.getppid()
    with stopping_on_signals(stop, _leave_at_once):
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(_ended(parent))
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


async def _keep_up(settings: Settings, token: str | None) -> None:
    bound = bind(settings)
    try:
        url = url_of(settings, bound)
        if not settings.has_browsers:
            async with serving(settings, token, bound, None):
                await _stay(settings, url, "it waits for nodes (--role node --master)")
            return
        async with (
            browsers(settings, bound) as (pool, name),
            serving(settings, token, bound, pool),
        ):
            await _stay(settings, url, f"{pool.capacity} sessions, {name}")
    finally:
        bound.close()


async def _stay(settings: Settings, url: str, about: str) -> None:
    """Say that it is ready, until this is cancelled."""
    at = "" if settings.master is None else f", master {settings.master}"
    say(f"Browser {_NAMES[settings.role]} ready at {url}: {about}{at}; Ctrl-C stops it")
    await asyncio.Event().wait()


async def _ended(parent: int) -> None:
    """Returns when the process that started this one is gone; never after nohup."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN or parent == 1:
        await asyncio.Event().wait()
    while os.getppid() == parent:  # noqa: ASYNC110 - nobody else would tell us
        await asyncio.sleep(PARENT_INTERVAL)
    _LOGGER.warning("who started this server is gone, so it stops; nohup would keep it")


def log_events() -> None:
    """Lines for people on standard error: what happens to browsers and nodes, and warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger().addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    # Whoever speaks no HTTP is answered 400, and that is all there is to say about it.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    # A reader of the lines who goes away ends the lines, and nothing else.
    logging.raiseExceptions = False


def _leave_at_once() -> NoReturn:
    leave(INTERRUPTED)
