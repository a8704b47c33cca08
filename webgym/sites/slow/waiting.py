"""Letting visitors wait: for a bounded time, and a bounded number of them at once."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from aiohttp import web

from webgym.sites.errors import BadRequestError, PageError

LONGEST = 120.0
WAITING_AT_ONCE = 512


def seconds(fields: Mapping[str, str], usual: float) -> float:
    """How long a URL asks to wait. Raises BadRequestError."""
    try:
        given = float(fields.get("seconds") or usual)
    except ValueError:
        given = -1.0
    if not 0 <= given <= LONGEST:
        raise BadRequestError(f"“seconds” must be a number from 0 to {LONGEST:.0f}.")
    return given


class Waiting:
    """The visitors who wait now."""

    def __init__(self, limit: int = WAITING_AT_ONCE) -> None:
        self._limit = limit
        self._now = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue for as long as the block takes. Raises PageError if it is full."""
        if self._now >= self._limit:
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, "Too many visitors are waiting.")
        self._now += 1
        try:
            yield
        finally:
            self._now -= 1

    async def wait(self, duration: float) -> None:
        """Raises PageError."""
        with self.place():
            await asyncio.sleep(duration)


WAITING = web.AppKey("waiting", Waiting)
