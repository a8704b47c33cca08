"""What request handlers share: reading requests, opening documents, making responses.

The text in `q` is not in the index: a search reads the records in the background, and the filter
gets the entries that it has found so far (`filtered_index`).

Large responses are sent in portions: a thread makes the pieces of one portion, and the next portion
only after the client has taken it. An error on the way aborts the connection, so that a partial
file is never taken for a whole one.
"""

import asyncio
import logging
import re
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from aiohttp import hdrs, web

from rollgym.store import StorageError
from rollgym.viewer.errors import RequestError
from rollgym.viewer.index.lines import reason_of
from rollgym.viewer.library import Library
from rollgym.viewer.open_source import OpenSource
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.search import SearchProgress
from rollgym.viewer.source import EntryId
from rollgym.viewer.view import RolloutDocument

LIBRARY = web.AppKey("library", Library)
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]")
_ENCODER = msgspec.json.Encoder()


def library_of(request: web.Request) -> Library:
    return request.app[LIBRARY]


def source_of(request: web.Request) -> OpenSource:
    """The source that the URL names. Raises RequestError."""
    return library_of(request).source(request.match_info["source"])


def entry_of(request: web.Request) -> EntryId:
    """The record that the URL names. Raises RequestError."""
    text = request.match_info["entry"]
    try:
        return EntryId.parse(text)
    except ValueError:
        raise missing_entry(text[:40]) from None


def missing_entry(text: str) -> RequestError:
    return RequestError(
        HTTPStatus.NOT_FOUND,
        f"There is no rollout {text!r} in this source. It may not have been read yet, or its file "
        "was replaced.",
    )


def query_of(request: web.Request) -> Mapping[str, list[str]]:
    """Every parameter with all its values."""
    query = request.query
    return {name: query.getall(name) for name in query}


def text_of(request: web.Request, name: str) -> str:
    """A required parameter. Raises RequestError."""
    text = request.query.get(name)
    if text is None:
        raise RequestError(HTTPStatus.BAD_REQUEST, f"The parameter `{name}` is missing.")
    return text


def as_json(value: object, status: int = HTTPStatus.OK) -> web.Response:
    return json_body(_ENCODER.encode(value), status)


def json_body(body: bytes, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def as_download(response: web.StreamResponse, name: str) -> None:
    """Make the browser save the response under this name instead of showing it."""
    plain = _NOT_IN_NAMES.sub("_", name)
    response.headers[hdrs.CONTENT_DISPOSITION] = (
        f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
    )


EVERYTHING = Filter()


class FilteredIndex(NamedTuple):
    """A filter and the index it applies to. `search` is the progress of its text search."""

    connection: sqlite3.Connection
    wanted: Filter
    search: SearchProgress | None


@contextmanager
def filtered_index(opened: OpenSource, wanted: Filter) -> Iterator[FilteredIndex]:
    """Run the text search of a filter, and read the index. For a thread.

    Raises StorageError, RequestError.
    """
    search = None
    if wanted.q:
        search, entries = opened.searches.find(wanted.q, opened.index())
        wanted = wanted.among(entries)
    with opened.reading() as connection:
        yield FilteredIndex(connection, wanted, search)


async def answer_from_index(
    request: web.Request,
    answer: Callable[[FilteredIndex], msgspec.Struct],
    wanted: Filter = EVERYTHING,
) -> web.Response:
    """Answer in a thread, from the index of the source. Raises RequestError, StorageError."""
    opened = source_of(request)

    def look_up() -> web.Response:
        with filtered_index(opened, wanted) as asked:
            return as_json(answer(asked))

    return await library_of(request).work(look_up)


async def answer_from_document(
    request: web.Request, answer: Callable[[RolloutDocument], web.Response]
) -> web.Response:
    """Answer in a thread, from the record that the URL names. Raises RequestError, StorageError."""
    library, opened, entry = library_of(request), source_of(request), entry_of(request)
    return await library.work(lambda: answer(open_document(library, opened, entry)))


def open_or_explain(library: Library, opened: OpenSource, entry: EntryId) -> RolloutDocument:
    """Open a record; for an unreadable one, a document that explains why.

    Raises RequestError, StorageError.
    """
    with existing_entry(entry):
        try:
            return library.document(opened, entry)
        except ValueError as error:
            return opened.unreadable_document(entry, reason_of(error))


def open_document(library: Library, opened: OpenSource, entry: EntryId) -> RolloutDocument:
    """Open a record. Raises RequestError, StorageError."""
    with existing_entry(entry):
        try:
            return library.document(opened, entry)
        except ValueError as error:
            raise RequestError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"Cannot show this record: {error}."
            ) from error


@contextmanager
def existing_entry(entry: EntryId) -> Iterator[None]:
    """Turns a KeyError inside the block into a RequestError (404) for a missing entry."""
    try:
        yield
    except KeyError:
        raise missing_entry(str(entry)) from None


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
    if not isinstance(body, bytes) or len(body) <= PORTION_BYTES:
        return answer
    if request.method == hdrs.METH_HEAD:
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


def _give_up(request: web.Request, error: Exception) -> None:
    _log.warning("%s was sent in part: %s", request.path, str(error) or "the client is too slow")
    if request.transport is not None:
        request.transport.abort()
