"""One rollout as JSON: what it amounts to, its turns, its steps, and anything in its record.

Turns and steps come in portions; `raw`, `text` and `picture` give one thing of the record by its
JSON pointer. Nothing of a record is ever sent as a page: JSON, plain text, or a picture of a known
type.
"""

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from rollgym.viewer.errors import PageError
from rollgym.viewer.http.answers import (
    as_download,
    as_json,
    entry_of,
    json_body,
    library_of,
    number_of,
    query_of,
    shelf_of,
    text_of,
)
from rollgym.viewer.http.asking import asking
from rollgym.viewer.http.opening import known, of_document, opened_anyway
from rollgym.viewer.http.pictures import read_picture
from rollgym.viewer.http.streaming import send_body, send_download
from rollgym.viewer.index import EntryId
from rollgym.viewer.offline import offline_page as page_of
from rollgym.viewer.queries.filter import Filter
from rollgym.viewer.queries.listing import neighbours as neighbours_of
from rollgym.viewer.queries.related import AttemptLine, Repeat, related
from rollgym.viewer.shelf import Shelf
from rollgym.viewer.view import STEPS_LIMIT, TURNS_LIMIT, Document, Image, Picture, RolloutView

_PICTURE_CACHE = "private, max-age=600"
_USUAL_COUNT = 50
T = TypeVar("T")


class _Rollout(msgspec.Struct, frozen=True):
    """`siblings` are the other repeats of its task, `attempts` all at this one."""

    id: str
    view: RolloutView
    standing: bool
    siblings: list[Repeat]
    attempts: tuple[AttemptLine, ...]


async def rollout(request: web.Request) -> web.Response:
    """All but its turns and steps, with the other attempts at it and the other repeats."""
    library, shelf, entry = library_of(request), shelf_of(request), entry_of(request)

    def look_up() -> web.Response:
        view = opened_anyway(library, shelf, entry).view()
        with shelf.reading() as connection, known(entry):
            found = related(connection, entry)
        others = [each for each in found.siblings if each.id != str(entry)]
        return as_json(_Rollout(str(entry), view, found.standing, others, found.attempts))

    return await library.work(look_up)


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
    return await of_document(request, lambda it: as_json({"turns": it.turns(start, count)}))


async def steps(request: web.Request) -> web.Response:
    start, count = number_of(request, "from", 0), _count_of(request, STEPS_LIMIT)
    return await of_document(request, lambda it: as_json({"steps": it.steps(start, count)}))


async def find(request: web.Request) -> web.Response:
    """Where in the rollout a text occurs."""
    text = text_of(request, "q")

    def look(document: Document) -> web.Response:
        in_turns, in_steps = document.find(text) if text else ([], [])
        return as_json({"turns": in_turns, "steps": in_steps})

    return await of_document(request, look)


async def raw(request: web.Request) -> web.StreamResponse:
    """The JSON at a pointer."""
    path = request.query.get("path", "")
    answer = await of_document(request, lambda it: json_body(_at(path, it.raw)))
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

    return await send_body(request, await of_document(request, read))


async def picture(request: web.Request) -> web.Response:
    """A picture that is in the record."""
    path = text_of(request, "path")
    return await of_document(request, lambda it: _shown(_at(path, it.image)))


async def picture_file(request: web.Request) -> web.Response:
    """A picture that is a file of the source."""
    images, name = shelf_of(request).images, request.match_info["file"]
    return await library_of(request).work(lambda: _shown(read_picture(images, name)))


async def offline_page(request: web.Request) -> web.StreamResponse:
    """The rollout as one file that needs nothing else."""
    library, shelf, entry = library_of(request), shelf_of(request), entry_of(request)
    name = f"{shelf.source.id}-{entry}"

    def pieces() -> Iterator[bytes]:
        document = opened_anyway(library, shelf, entry)
        yield from page_of(
            document, name=name, picture=lambda image: _picture_of(shelf, document, image)
        )

    return await send_download(request, pieces(), "text/html", f"{name}.html")


def _record(shelf: Shelf, entry: EntryId) -> bytes:
    with known(entry):
        return shelf.index().record(entry)


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
