"""Sources as JSON: which there are, what they amount to, their tasks and their rollouts."""

from collections.abc import Callable

import msgspec
from aiohttp import web

from rollgym.store import StoreError, read_manifest
from rollgym.viewer.http.answers import (
    as_json,
    json_body,
    library_of,
    query_of,
    shelf_of,
    text_of,
)
from rollgym.viewer.http.asking import Asked, asking
from rollgym.viewer.http.sources import described
from rollgym.viewer.liveness import Snapshot, read_monitors
from rollgym.viewer.queries.configuration import Run
from rollgym.viewer.queries.configuration import configuration as configuration_of
from rollgym.viewer.queries.facets import facets as facets_of
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.grid import Grid
from rollgym.viewer.queries.grid import grid as grid_of
from rollgym.viewer.queries.joined import JoinedQuery, Side
from rollgym.viewer.queries.joined import joined as joined_of
from rollgym.viewer.queries.listing import listing as listing_of
from rollgym.viewer.queries.overview import overview as overview_of
from rollgym.viewer.queries.tasks import TASK_SORTS
from rollgym.viewer.queries.tasks import tasks as tasks_of
from rollgym.viewer.shelf import Shelf


class _Monitor(msgspec.Struct, frozen=True):
    snapshots: list[Snapshot]
    grid: Grid


async def sources(request: web.Request) -> web.Response:
    """All that are open."""
    library = library_of(request)

    def look_up() -> web.Response:
        library.wait_for_first_lines()
        return as_json({"sources": [described(shelf) for shelf in library.shelves.values()]})

    return await library.work(look_up)


async def overview(request: web.Request) -> web.Response:
    """What the rollouts that fit amount to. That of all is kept with the index."""
    shelf, wanted = shelf_of(request), Filter.of(query_of(request))
    if wanted == Filter():
        return json_body(await library_of(request).work(shelf.overview))
    return await _filtered(
        request,
        wanted,
        lambda asked: overview_of(asked.connection, asked.wanted, shelf.expected(), asked.search),
    )


async def facets(request: web.Request) -> web.Response:
    """What there is to filter by."""
    shelf = shelf_of(request)

    def look_up() -> web.Response:
        with shelf.reading() as connection:
            return as_json(facets_of(connection))

    return await library_of(request).work(look_up)


async def tasks(request: web.Request) -> web.Response:
    """A page of the table of tasks."""
    wanted = Filter.of(query_of(request), sorts=TASK_SORTS)
    return await _filtered(
        request, wanted, lambda asked: tasks_of(asked.connection, asked.wanted, asked.search)
    )


async def listing(request: web.Request) -> web.Response:
    """A page of the list of rollouts."""
    shelf, wanted = shelf_of(request), Filter.of(query_of(request))
    return await _filtered(
        request,
        wanted,
        lambda asked: listing_of(asked.connection, asked.wanted, shelf.orders, asked.search),
    )


async def monitor(request: web.Request) -> web.Response:
    """The last snapshot of each task monitor that there is, and the board from the index."""
    shelf = shelf_of(request)

    def look_up() -> web.Response:
        with shelf.reading() as connection:
            grid = grid_of(connection, shelf.expected(), shelf.repeats())
        return as_json(_Monitor(read_monitors(shelf.source), grid))

    return await library_of(request).work(look_up)


async def joined(request: web.Request) -> web.Response:
    """Two sources, task by task."""
    library, wanted = library_of(request), JoinedQuery.of(query_of(request))
    left, right = (library.shelf(text_of(request, side)) for side in ("left", "right"))

    def look_up() -> web.Response:
        with left.reading() as here, right.reading() as there:
            one = Side(left.source.id, left.title, here)
            other = Side(right.source.id, right.title, there)
            return as_json(joined_of(one, other, wanted))

    return await library.work(look_up)


async def configuration(request: web.Request) -> web.Response:
    """How the runs were configured: those that are named, or all."""
    library = library_of(request)
    named = request.query.getall("source", None) or list(library.shelves)
    shelves = [library.shelf(identity) for identity in dict.fromkeys(named)]
    return await library.work(lambda: as_json(configuration_of([_run(each) for each in shelves])))


async def _filtered(
    request: web.Request, wanted: Filter, answer: Callable[[Asked], msgspec.Struct]
) -> web.Response:
    """Have a thread answer. Raises PageError, StorageError."""
    shelf = shelf_of(request)

    def look_up() -> web.Response:
        with asking(shelf, wanted) as asked:
            return as_json(answer(asked))

    return await library_of(request).work(look_up)


def _run(shelf: Shelf) -> Run:
    """One whose manifest cannot be read is as one without."""
    path = shelf.manifest
    try:
        manifest = read_manifest(path.parent) if path else None
    except StoreError:
        manifest = None
    return Run(shelf.source.id, shelf.title, manifest)
