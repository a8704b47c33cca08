"""Sending large responses in portions, and exporting the rows that a filter selects as JSON lines.

A thread makes the pieces of one portion, and the next portion only after the client has taken it.
An error on the way aborts the connection, so that a partial file is never taken for a whole one.
"""

import asyncio
import logging
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus

from aiohttp import hdrs, web

from rollgym.store import StorageError
from rollgym.viewer.errors import RequestError
from rollgym.viewer.http.handling import (
    as_download,
    filtered_index,
    library_of,
    query_of,
    source_of,
)
from rollgym.viewer.open_source import OpenSource
from rollgym.viewer.queries.filter import PAGING, Filter
from rollgym.viewer.queries.listing import all_entries
from rollgym.viewer.source import EntryId

PORTION_BYTES = 1 << 20
PORTION_PIECES = 256
WRITE_SECONDS = 60.0
_log = logging.getLogger(__name__)


async def send_download(
    request: web.Request, pieces: Iterator[bytes], content_type: str, name: str
) -> web.StreamResponse:
    """Send the pieces as a download. Errors of the first portion become a normal response."""
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
    except (RequestError, StorageError, TimeoutError, ConnectionError) as error:
        _give_up(request, error)
    return response


async def send_body(request: web.Request, answer: web.Response) -> web.StreamResponse:
    """The response itself if it is small; a large one is sent without copying it whole."""
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
    """Raises TimeoutError if the client does not take it."""
    view = memoryview(data)
    for start in range(0, len(data), PORTION_BYTES):
        async with asyncio.timeout(WRITE_SECONDS):
            await response.write(view[start : start + PORTION_BYTES])


def _portion(pieces: Iterator[bytes]) -> deque[bytes]:
    """The next pieces; empty at the end. Small pieces are joined, large ones stay separate."""
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
    _log.warning("%s was sent in part: %s", request.path, str(error) or "the client is too slow")
    if request.transport is not None:
        request.transport.abort()


JSON_LINES = "application/x-ndjson"
SEARCH_TIMEOUT = 600.0
LONGEST_SELECTION = 80
"""Characters of a file's name that describe the filter."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


async def export(request: web.Request) -> web.StreamResponse:
    """All rows that match, on whatever page the list is. Unreadable lines are left out."""
    opened, wanted = source_of(request), Filter.of(query_of(request))
    selected = await _selected(request, opened, wanted)
    name = export_name(opened.source.id, query_of(request))
    return await send_download(request, _rows(opened, selected), JSON_LINES, name)


def export_name(source: str, query: Mapping[str, Sequence[str]]) -> str:
    """The name of the file: the source, and the filter of its rows."""
    chosen = (
        f"{name}-{'-'.join(values)}"
        for name, values in query.items()
        if name not in PAGING and any(values)
    )
    words = [word for each in chosen if (word := _NOT_IN_NAMES.sub("-", each).strip("-."))]
    selected = ".".join(words)[:LONGEST_SELECTION].rstrip("-.")
    return f"{source}.{selected or 'export'}.jsonl"


async def _selected(request: web.Request, opened: OpenSource, wanted: Filter) -> Sequence[int]:
    """The selected entries. An export must be complete, so this waits for a text search.

    Raises RequestError.
    """

    def select() -> Sequence[int] | None:
        _require_read(opened)
        with filtered_index(opened, wanted) as asked:
            if asked.search is not None and not asked.search.done:
                return None
            return all_entries(asked.connection, asked.wanted)

    try:
        async with asyncio.timeout(SEARCH_TIMEOUT):
            while (selected := await library_of(request).work(select)) is None:
                pass  # each call waits a moment for the search
    except TimeoutError as error:
        raise RequestError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"The search did not finish within {SEARCH_TIMEOUT:.0f} s. Keep the list open until it "
            "has finished, then export.",
        ) from error
    return selected


def _require_read(opened: OpenSource) -> None:
    state = opened.index().state()
    if not state.ready:
        raise RequestError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"{opened.title} is still being read ({state.read:,} of {state.size:,} bytes). "
            "Export it when all of it is read.",
        )


def _rows(opened: OpenSource, numbers: Sequence[int]) -> Iterator[bytes]:
    """Raises StorageError."""
    for number in numbers:
        try:
            row = opened.document(EntryId.of(number)).row()
        except ValueError:
            continue
        except KeyError as error:
            raise StorageError(f"{opened.source.path} was replaced during the export") from error
        yield row
        del row  # rows may be large: keep only one in memory
        yield b"\n"
