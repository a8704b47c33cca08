"""Taking rollouts away: the rows that a filter selects, as JSON lines, in the order of the list."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus

from aiohttp import web

from rollgym.store import StorageError
from rollgym.viewer.errors import PageError
from rollgym.viewer.http.answers import library_of, query_of, shelf_of
from rollgym.viewer.http.asking import asking
from rollgym.viewer.http.streaming import send_download
from rollgym.viewer.index import EntryId
from rollgym.viewer.queries.filter import PAGING, Filter
from rollgym.viewer.queries.orders import all_entries
from rollgym.viewer.shelf import Shelf

JSON_LINES = "application/x-ndjson"
SEARCH_PATIENCE = 600.0
LONGEST_SELECTION = 80
"""Characters of a file's name that tell of the filter."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


async def export(request: web.Request) -> web.StreamResponse:
    """All that fits, wherever the list was paged to. Lines that are no rows are left out."""
    shelf, wanted = shelf_of(request), Filter.of(query_of(request))
    selected = await _selected(request, shelf, wanted)
    name = export_name(shelf.source.id, query_of(request))
    return await send_download(request, _rows(shelf, selected), JSON_LINES, name)


def export_name(source: str, query: Mapping[str, Sequence[str]]) -> str:
    """What the file is kept as: the source, and what its rows were selected by."""
    chosen = (
        f"{name}-{'-'.join(values)}"
        for name, values in query.items()
        if name not in PAGING and any(values)
    )
    words = [word for each in chosen if (word := _NOT_IN_NAMES.sub("-", each).strip("-."))]
    selected = ".".join(words)[:LONGEST_SELECTION].rstrip("-.")
    return f"{source}.{selected or 'export'}.jsonl"


async def _selected(request: web.Request, shelf: Shelf, wanted: Filter) -> Sequence[int]:
    """Only the whole is worth taking away, so a search is waited for. Raises PageError."""

    def select() -> Sequence[int] | None:
        _require_read(shelf)
        with asking(shelf, wanted) as asked:
            if asked.search is not None and not asked.search.done:
                return None
            return all_entries(asked.connection, asked.wanted)

    try:
        async with asyncio.timeout(SEARCH_PATIENCE):
            while (selected := await library_of(request).work(select)) is None:
                pass  # every look waits a moment for the search
    except TimeoutError as error:
        raise PageError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"The search did not come to its end within {SEARCH_PATIENCE:.0f} s: leave it open in "
            "the list until it has, then export.",
        ) from error
    return selected


def _require_read(shelf: Shelf) -> None:
    state = shelf.index().state()
    if not state.ready:
        raise PageError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"{shelf.title} is still being read ({state.read:,} of {state.size:,} bytes): "
            "export it when that is done.",
        )


def _rows(shelf: Shelf, numbers: Sequence[int]) -> Iterator[bytes]:
    """Raises StorageError."""
    for number in numbers:
        try:
            row = shelf.document(EntryId.of(number)).row()
        except ValueError:
            continue
        except KeyError as error:
            raise StorageError(f"{shelf.source.path} was replaced while it was exported") from error
        yield row
        del row  # which may be large, and the next one too
        yield b"\n"
