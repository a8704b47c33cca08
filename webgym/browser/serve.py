"""`rollgym browser serve`: run a browser server until it is stopped."""

import asyncio
import logging
import sys
from collections.abc import Mapping

import msgspec

from rollgym.cli.process import say
from rollgym.engine import run as run_loop
from webgym.browser.server import bind, browsers, serving, url_of
from webgym.browser.settings import BrowserSettings, BrowserSettingsError, read_token
from webgym.served import until_stopped

_NAMES = {"both": "server", "master": "master", "node": "node"}
_LOGGER = logging.getLogger("webgym.browser")


def serve(given: Mapping[str, object]) -> int:
    """Serve with these settings until a signal; returns the exit status.

    Raises BrowserSettingsError.
    """
    try:
        settings = msgspec.convert(given, BrowserSettings)
    except msgspec.ValidationError as error:
        raise BrowserSettingsError(f"a setting is invalid: {error}") from error
    token = read_token()
    settings.check(token)
    log_events()
    return run_loop(until_stopped(_run_server(settings, token)))


async def _run_server(settings: BrowserSettings, token: str | None) -> None:
    bound = bind(settings)
    try:
        url = url_of(settings, bound)
        if not settings.has_browsers:
            async with serving(settings, token, bound, None):
                await _announce_and_wait(settings, url, "waiting for nodes (--role node --master)")
            return
        async with (
            browsers(settings, bound) as (pool, name),
            serving(settings, token, bound, pool),
        ):
            await _announce_and_wait(settings, url, f"{pool.capacity} sessions, {name}")
    finally:
        bound.close()


async def _announce_and_wait(settings: BrowserSettings, url: str, about: str) -> None:
    """Print that the server is ready, then wait until this is cancelled."""
    at = "" if settings.master is None else f", master {settings.master}"
    say(f"Browser {_NAMES[settings.role]} ready at {url}: {about}{at}. Press Ctrl-C to stop.")
    await asyncio.Event().wait()


def log_events() -> None:
    """Log events of browsers and nodes, and warnings, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger().addHandler(handler)
    _LOGGER.setLevel(logging.INFO)
    # A client that sends no valid HTTP gets 400; that needs no log line.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    # A closed standard error stops the log, but not the server.
    logging.raiseExceptions = False
