"""The repeats of a task side by side, as JSON."""

from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import islice

import msgspec
from aiohttp import web

from rollgym.store import StorageError
from rollgym.viewer.documents.difference import Difference, first_difference
from rollgym.viewer.errors import PageError
from rollgym.viewer.http.answers import as_json, library_of, shelf_of, whole_number
from rollgym.viewer.http.opening import opened
from rollgym.viewer.index import EntryId
from rollgym.viewer.library import Library
from rollgym.viewer.queries.related import Repeat
from rollgym.viewer.queries.related import repeats as repeats_of
from rollgym.viewer.shelf import Shelf
from rollgym.viewer.view import Document, RolloutView

MOST_COMPARED = 32
COMPARED_BYTES = 128 << 20


class _Repeat(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    repeat: int | None
    status: str
    reward: float | None
    success: bool | None
    turns: int
    steps: int
    blocked: bool = False


class _Repeats(msgspec.Struct, frozen=True):
    title: str
    task: int
    repeats: list[_Repeat]
    difference: Difference
    left_out: int


async def repeats(request: web.Request) -> web.Response:
    """The repeats of a task side by side, and where they part."""
    library, shelf = library_of(request), shelf_of(request)
    task = whole_number("task", request.match_info["task"])

    def compare() -> _Repeats:
        with shelf.reading() as connection:
            found = repeats_of(connection, task)
        if not found:
            raise PageError(HTTPStatus.NOT_FOUND, f"There is no rollout of task {task} here.")
        shown = dict(islice(_together(library, shelf, found), MOST_COMPARED))
        views = {identity: document.view() for identity, document in shown.items()}
        return _Repeats(
            next(iter(views.values())).title,
            task,
            [_repeat(each, views[each.id]) for each in found if each.id in views],
            first_difference(list(shown.values())),
            len(found) - len(shown),
        )

    return as_json(await library.work(compare))


def _together(
    library: Library, shelf: Shelf, found: Iterable[Repeat]
) -> Iterator[tuple[str, Document]]:
    """As many as fit into memory side by side, and one at least.

    Those that cannot be shown are left out. Raises PageError, StorageError where that are all.
    """
    size = 0
    problem: PageError | StorageError | None = None
    for each in found:
        try:
            document = opened(library, shelf, EntryId.parse(each.id))
        except (PageError, StorageError) as error:
            problem = error
            continue
        if size and size + document.size > COMPARED_BYTES:
            return
        size += document.size
        yield each.id, document
    if problem is not None and not size:
        raise problem


def _repeat(found: Repeat, view: RolloutView) -> _Repeat:
    return _Repeat(
        found.id,
        found.repeat,
        found.status,
        found.reward,
        found.success,
        view.turns,
        view.steps,
        found.blocked,
    )
