"""Sending what is large: portion by portion, none made before the one before it was taken.

Pieces are made by a thread, as many as make a portion, and nothing is gathered beyond that. What
goes wrong on the way ends the connection before its time, so that nobody takes a part for the
whole.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator

from aiohttp import hdrs, web

from rollgym.store import StorageError
from rollgym.viewer.errors import PageError
from rollgym.viewer.http.answers import as_download, library_of

PORTION_BYTES = 1 << 20
PORTION_PIECES = 256
WRITE_SECONDS = 60.0
_log = logging.getLogger(__name__)


async def send_download(
    request: web.Request, pieces: Iterator[bytes], content_type: str, name: str
) -> web.StreamResponse:
    """Send the pieces as a file to keep. What the first portion raises can still be answered."""
    library = library_of(request)
    portion = await library.work(lambda: _portion(pieces))
    response = web.StreamResponse()
    response.content_type = content_type
    as_download(response, name)
    await response.prepare(request)
    try:
        while portion:
            while portion:
                await _write(response, portion.popleft())
            portion = await library.work(lambda: _portion(pieces))
        await response.write_eof()
    except (PageError, StorageError, TimeoutError, ConnectionError) as error:
        _give_up(request, error)
    return response


async def send_body(request: web.Request, answer: web.Response) -> web.StreamResponse:
    """The answer itself, where it is small; a large one is not copied whole to be sent."""
    body = answer.body
    if request.method == hdrs.METH_HEAD or not isinstance(body, bytes) or _is_small(body):
        return answer
    response = web.StreamResponse(headers=answer.headers)
    response.content_length = len(body)
    await response.prepare(request)
    try:
        await _write(response, body)
        await response.write_eof()
    except (TimeoutError, ConnectionError) as error:
        _give_up(request, error)
    return response


async def _write(response: web.StreamResponse, data: bytes) -> None:
    """Raises TimeoutError where the reader does not take it."""
    view = memoryview(data)
    for start in range(0, len(data), PORTION_BYTES):
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(view[start : start + PORTION_BYTES])


def _portion(pieces: Iterator[bytes]) -> deque[bytes]:
    """The next pieces; none at the end. Small ones are put together, large ones left alone."""
    small = bytearray()
    for number, piece in enumerate(pieces, start=1):
        if len(piece) >= PORTION_BYTES:
            return deque((bytes(small), piece) if small else (piece,))
        small += piece
        if small and (len(small) >= PORTION_BYTES or number >= PORTION_PIECES):
            break
    return deque((bytes(small),) if small else ())


def _is_small(body: bytes) -> bool:
    return len(body) <= PORTION_BYTES


def _give_up(request: web.Request, error: Exception) -> None:
    _log.warning("%s was not sent to its end: %s", request.path, str(error) or "nobody takes it")
    if request.transport is not None:
        request.transport.abort()
