"""One rollout as JSON: what it amounts to, its turns, its steps, and anything in its record.

Turns and steps come in portions; `raw`, `text` and `picture` give one thing of the record by its
JSON pointer. Nothing of a record is ever sent as a page: JSON, plain text, or a picture of a known
type.
"""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from itertools import islice
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from rollgym.store import StorageError
from rollgym.viewer.documents.difference import Difference, first_difference
from rollgym.viewer.errors import PageError
from rollgym.viewer.http.answers import (
    as_download,
    as_json,
    entry_of,
    json_body,
    library_of,
    no_entry,
    number_of,
    query_of,
    shelf_of,
    text_of,
    whole_number,
)
from rollgym.viewer.http.asking import asking
from rollgym.viewer.http.pictures import read_picture
from rollgym.viewer.http.streaming import send_body, send_download
from rollgym.viewer.index import EntryId
from rollgym.viewer.library import Library
from rollgym.viewer.offline import offline_page as page_of
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.listing import neighbours as neighbours_of
from rollgym.viewer.queries.related import AttemptLine, Repeat, related
from rollgym.viewer.queries.related import repeats as repeats_of
from rollgym.viewer.shelf import Shelf
from rollgym.viewer.view import STEPS_LIMIT, TURNS_LIMIT, Document, Image, Picture, RolloutView

_PICTURE_CACHE = "private, max-age=600"
_USUAL_COUNT = 50
MOST_COMPARED = 32
COMPARED_BYTES = 128 << 20
T = TypeVar("T")


class _Rollout(msgspec.Struct, frozen=True):
    """`siblings` are the other repeats of its task, `attempts` all at this one."""

    id: str
    view: RolloutView
    standing: bool
    siblings: list[Repeat]
    attempts: tuple[AttemptLine, ...]


class _Repeat(msgspec.Struct, frozen=True):
    id: str
    repeat: int | None
    status: str
    reward: float | None
    success: bool | None
    turns: int
    steps: int


class _Repeats(msgspec.Struct, frozen=True):
    title: str
    task: int
    repeats: list[_Repeat]
    difference: Difference
    left_out: int


async def rollout(request: web.Request) -> web.Response:
    """All but its turns and steps, with the other attempts at it and the other repeats."""
    shelf, entry = shelf_of(request), entry_of(request)

    def look_up(document: Document) -> web.Response:
        with shelf.reading() as connection:
            found = related(connection, entry)
        others = [each for each in found.siblings if each.id != str(entry)]
        view = document.view()
        return as_json(_Rollout(str(entry), view, found.standing, others, found.attempts))

    return await _of_document(request, look_up)


async def neighbours(request: web.Request) -> web.Response:
    """What comes before and after it in the filtered list."""
    shelf, entry = shelf_of(request), entry_of(request)
    wanted = Filter.of(query_of(request))

    def look_up() -> web.Response:
        with asking(shelf, wanted) as asked:
            return as_json(neighbours_of(asked.connection, asked.wanted, shelf.orders, entry))

    return await library_of(request).work(look_up)


async def turns(request: web.Request) -> web.Response:
    start, count = number_of(request, "from", 0), _count_of(request, TURNS_LIMIT)
    return await _of_document(request, lambda it: as_json({"turns": it.turns(start, count)}))


async def steps(request: web.Request) -> web.Response:
    start, count = number_of(request, "from", 0), _count_of(request, STEPS_LIMIT)
    return await _of_document(request, lambda it: as_json({"steps": it.steps(start, count)}))


async def find(request: web.Request) -> web.Response:
    """Where in the rollout a text occurs."""
    text = text_of(request, "q")

    def look(document: Document) -> web.Response:
        in_turns, in_steps = document.find(text) if text else ([], [])
        return as_json({"turns": in_turns, "steps": in_steps})

    return await _of_document(request, look)


async def raw(request: web.Request) -> web.StreamResponse:
    """The JSON at a pointer."""
    path = request.query.get("path", "")
    answer = await _of_document(request, lambda it: json_body(_at(path, it.raw)))
    if request.query.get("download"):
        as_download(answer, f"{_name_of(request)}.json")
    return await send_body(request, answer)


async def text(request: web.Request) -> web.StreamResponse:
    """The whole string at a pointer; without one the record itself, also one that is no JSON."""
    path, shelf, entry = text_of(request, "path"), shelf_of(request), entry_of(request)
    if not path:
        answer = await library_of(request).work(lambda: _plain(_record(shelf, entry)))
        return await send_body(request, answer)

    def read(document: Document) -> web.Response:
        try:
            found = msgspec.json.decode(_at(path, document.raw), type=str)
        except msgspec.DecodeError:
            raise PageError(
                HTTPStatus.NOT_FOUND, f"What is at {path[:200]} is no text: ask /raw for it."
            ) from None
        return _plain(found.encode())

    return await send_body(request, await _of_document(request, read))


async def picture(request: web.Request) -> web.Response:
    """A picture that is in the record."""
    path = text_of(request, "path")
    return await _of_document(request, lambda it: _shown(_at(path, it.image)))


async def picture_file(request: web.Request) -> web.Response:
    """A picture that is a file of the source."""
    images, name = shelf_of(request).images, request.match_info["file"]
    return await library_of(request).work(lambda: _shown(read_picture(images, name)))


async def offline_page(request: web.Request) -> web.StreamResponse:
    """The rollout as one file that needs nothing else."""
    library, shelf, entry = library_of(request), shelf_of(request), entry_of(request)
    name = f"{shelf.source.id}-{entry}"

    def pieces() -> Iterator[bytes]:
        document = _opened(library, shelf, entry)
        title = f"{document.view().title or 'Rollout'} ({name})"
        yield from page_of(
            document, title=title, picture=lambda image: _picture_of(shelf, document, image)
        )

    return await send_download(request, pieces(), "text/html", f"{name}.html")


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


async def _of_document(
    request: web.Request, answer: Callable[[Document], web.Response]
) -> web.Response:
    """Have a thread answer from the record that the URL names. Raises PageError, StorageError."""
    library, shelf, entry = library_of(request), shelf_of(request), entry_of(request)

    return await library.work(lambda: answer(_opened(library, shelf, entry)))


def _opened(library: Library, shelf: Shelf, entry: EntryId) -> Document:
    """Raises PageError, StorageError."""
    try:
        return library.document(shelf, entry)
    except KeyError:
        raise no_entry(str(entry)) from None
    except ValueError as error:
        raise PageError(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"This record cannot be shown: {error}."
        ) from error


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
            document = _opened(library, shelf, EntryId.parse(each.id))
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
        found.id, found.repeat, found.status, found.reward, found.success, view.turns, view.steps
    )


def _record(shelf: Shelf, entry: EntryId) -> bytes:
    try:
        return shelf.index().record(entry)
    except KeyError:
        raise no_entry(str(entry)) from None


def _plain(body: bytes) -> web.Response:
    """As text, whatever it is; what is no UTF-8 the browser shows as such."""
    return web.Response(body=body, content_type="text/plain", charset="utf-8")


def _picture_of(shelf: Shelf, document: Document, image: Image) -> Picture | None:
    """For a page that is taken away, which does without what cannot be had."""
    try:
        if image.path:
            return document.image(image.path)
        return read_picture(shelf.images, image.file)
    except (KeyError, ValueError, PageError):
        return None


def _at(path: str, read: Callable[[str], T]) -> T:
    """What a pointer leads to. Raises PageError."""
    try:
        return read(path)
    except KeyError:
        raise PageError(
            HTTPStatus.NOT_FOUND, f"There is nothing at {path[:200]!r} in this record."
        ) from None
    except ValueError as error:
        raise PageError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"What is at {path[:200]!r} cannot be shown: {error}.",
        ) from None


def _count_of(request: web.Request, most: int) -> int:
    return min(number_of(request, "count", _USUAL_COUNT), most)


def _shown(found: Picture) -> web.Response:
    return web.Response(
        body=found.data,
        content_type=found.media_type,
        headers={hdrs.CACHE_CONTROL: _PICTURE_CACHE},
    )


def _name_of(request: web.Request) -> str:
    return f"{shelf_of(request).source.id}-{entry_of(request)}"
