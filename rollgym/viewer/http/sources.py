"""Sources as JSON: the list of sources, their overviews, tasks, rollouts and comparisons.

The rows that a filter selects can be exported as JSON lines.
"""

import asyncio
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from time import time

import msgspec
from aiohttp import web

from rollgym.store import Manifest, StorageError, StoreError, read_manifest
from rollgym.viewer.errors import RequestError
from rollgym.viewer.http.handling import (
    EVERYTHING,
    FilteredIndex,
    answer_from_index,
    as_json,
    filtered_index,
    json_body,
    library_of,
    query_of,
    send_download,
    source_of,
    text_of,
)
from rollgym.viewer.index.source_index import IndexState
from rollgym.viewer.open_source import OpenSource, Snapshot, read_monitors
from rollgym.viewer.queries.comparison import ComparedSource, ComparisonQuery, RunName
from rollgym.viewer.queries.comparison import compare_configurations as configuration_of
from rollgym.viewer.queries.comparison import compare_tasks as joined_of
from rollgym.viewer.queries.counts import RATE_SECONDS, RolloutPace, SourceCoverage, SourceTotals
from rollgym.viewer.queries.counts import facets as facets_of
from rollgym.viewer.queries.filter import PAGING, Filter
from rollgym.viewer.queries.listing import all_entries
from rollgym.viewer.queries.listing import listing as listing_of
from rollgym.viewer.queries.overview import overview as overview_of
from rollgym.viewer.queries.tasks import TASK_SORTS, Grid
from rollgym.viewer.queries.tasks import grid as grid_of
from rollgym.viewer.queries.tasks import tasks as tasks_of
from rollgym.viewer.source import EntryId


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One source in the list: the state of its index, and its totals so far.

    `started` is when the first rollout started and `latest` when the last one ended, as Unix times.
    `rate` is how many end per minute, and `left_seconds` how long the others will take at that
    rate. Each is None where it is unknown, for example in a run that is not live.
    """

    id: str
    title: str
    kind: str
    path: str
    live: bool
    state: IndexState
    coverage: SourceCoverage
    mean_reward: float | None
    success_rate: float | None
    started: float | None
    latest: float | None
    rate: float | None
    left_seconds: float | None


def describe_source(opened: OpenSource) -> SourceInfo:
    """Describe a source, also one that cannot be read: its state then has the problem."""
    try:
        state, totals = opened.totals()
    except (StorageError, sqlite3.Error) as error:
        state, totals = IndexState(problem=str(error)), SourceTotals()
    source, pace = opened.source, totals.pace
    rate = pace.rate if opened.is_live and not _is_stalled(pace) else None
    return SourceInfo(
        id=source.id,
        title=opened.title,
        kind=source.kind,
        path=str(source.path),
        live=opened.is_live,
        state=state,
        coverage=totals.coverage,
        mean_reward=totals.mean_reward,
        success_rate=totals.success_rate,
        started=pace.started,
        latest=pace.latest,
        rate=rate,
        left_seconds=_left_seconds(totals.coverage, rate) if opened.is_live else None,
    )


def _is_stalled(pace: RolloutPace) -> bool:
    """Whether the last rollout ended so long ago that the rate is outdated."""
    return pace.latest is not None and time() - pace.latest > RATE_SECONDS


def _left_seconds(coverage: SourceCoverage, rate: float | None) -> float | None:
    if coverage.unresolved == 0:
        return 0.0
    return 60 * coverage.unresolved / rate if coverage.unresolved and rate else None


class _Monitor(msgspec.Struct, frozen=True):
    snapshots: list[Snapshot]
    grid: Grid


async def sources(request: web.Request) -> web.Response:
    """All open sources."""
    library = library_of(request)

    def look_up() -> web.Response:
        library.wait_for_first_lines()
        return as_json(
            {"sources": [describe_source(opened) for opened in library.sources.values()]}
        )

    return await library.work(look_up)


async def overview(request: web.Request) -> web.Response:
    """The overview of the rollouts that match; without a filter it is kept in the index."""
    opened, wanted = source_of(request), Filter.of(query_of(request))
    if wanted == EVERYTHING:
        return json_body(await library_of(request).work(opened.overview))
    return await answer_from_index(
        request,
        lambda asked: overview_of(asked.connection, asked.wanted, opened.expected(), asked.search),
        wanted,
    )


async def facets(request: web.Request) -> web.Response:
    """The values to filter by."""
    return await answer_from_index(request, lambda asked: facets_of(asked.connection))


async def tasks(request: web.Request) -> web.Response:
    """A page of the table of tasks."""
    wanted = Filter.of(query_of(request), sorts=TASK_SORTS)
    return await answer_from_index(
        request, lambda asked: tasks_of(asked.connection, asked.wanted, asked.search), wanted
    )


async def listing(request: web.Request) -> web.Response:
    """A page of the list of rollouts."""
    opened, wanted = source_of(request), Filter.of(query_of(request))
    return await answer_from_index(
        request,
        lambda asked: listing_of(asked.connection, asked.wanted, opened.orders, asked.search),
        wanted,
    )


async def monitor(request: web.Request) -> web.Response:
    """The last snapshot of each task monitor, and the grid from the index."""
    opened = source_of(request)

    def look_up(asked: FilteredIndex) -> _Monitor:
        grid = grid_of(asked.connection, opened.expected(), opened.repeats())
        return _Monitor(read_monitors(opened.source), grid)

    return await answer_from_index(request, look_up)


async def joined(request: web.Request) -> web.Response:
    """Two sources compared task by task."""
    library, wanted = library_of(request), ComparisonQuery.of(query_of(request))
    left, right = (library.source(text_of(request, side)) for side in ("left", "right"))

    def look_up() -> web.Response:
        with left.reading() as here, right.reading() as there:
            one = ComparedSource(left.source.id, left.title, here)
            other = ComparedSource(right.source.id, right.title, there)
            return as_json(joined_of(one, other, wanted))

    return await library.work(look_up)


async def configuration(request: web.Request) -> web.Response:
    """The configurations of the named runs, or of all."""
    library = library_of(request)
    named = request.query.getall("source", None) or list(library.sources)
    sources = [library.source(identity) for identity in dict.fromkeys(named)]
    return await library.work(lambda: as_json(configuration_of([_run(each) for each in sources])))


def _run(opened: OpenSource) -> tuple[RunName, Manifest | None]:
    """A run with its manifest; an unreadable manifest counts as missing."""
    path = opened.manifest
    try:
        manifest = read_manifest(path.parent) if path else None
    except StoreError:
        manifest = None
    return RunName(opened.source.id, opened.title), manifest


JSON_LINES = "application/x-ndjson"
SEARCH_TIMEOUT = 600.0
LONGEST_SELECTION = 80
"""Characters of a file's name that describe the filter."""
_NOT_IN_SELECTIONS = re.compile(r"[^A-Za-z0-9._-]+")


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
    words = [word for each in chosen if (word := _NOT_IN_SELECTIONS.sub("-", each).strip("-."))]
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
