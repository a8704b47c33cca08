"""One rollout as JSON (its view, turns, steps, any value of its record), and the repeats of a task.

Turns and steps are sent in portions; `raw`, `text` and `picture` send one value of the record by
its JSON pointer. Nothing of a record is ever sent as a page: only JSON, plain text, or a picture of
a known type. A HAR is sent as a file to save.
"""

from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from itertools import islice
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from rollgym.records.packing import TokenError
from rollgym.store import StorageError
from rollgym.viewer.documents.difference import FirstDifference, first_difference
from rollgym.viewer.documents.token_map import LONGEST_PORTION
from rollgym.viewer.errors import RequestError
from rollgym.viewer.http.files import read_har, read_picture
from rollgym.viewer.http.handling import (
    answer_from_document,
    answer_from_index,
    as_download,
    as_json,
    entry_of,
    existing_entry,
    json_body,
    library_of,
    open_document,
    open_or_explain,
    query_of,
    send_body,
    send_download,
    source_of,
    text_of,
)
from rollgym.viewer.library import Library
from rollgym.viewer.offline.page import offline_page as page_of
from rollgym.viewer.open_source import OpenSource
from rollgym.viewer.queries.filter import Filter, natural
from rollgym.viewer.queries.listing import neighbours as neighbours_of
from rollgym.viewer.queries.tasks import AttemptSummary, RepeatCell, RepeatOutcome, related
from rollgym.viewer.queries.tasks import repeats as repeats_of
from rollgym.viewer.source import EntryId
from rollgym.viewer.view import (
    STEPS_LIMIT,
    TURNS_LIMIT,
    PictureData,
    PictureView,
    RolloutDocument,
    RolloutView,
)

_PICTURE_CACHE = "private, max-age=600"
_USUAL_COUNT = 50
T = TypeVar("T")


class _Rollout(msgspec.Struct, frozen=True):
    """`siblings` are the other repeats of its task, `attempts` all attempts at this rollout."""

    id: str
    view: RolloutView
    is_outcome: bool
    siblings: list[RepeatOutcome]
    attempts: tuple[AttemptSummary, ...]


async def rollout(request: web.Request) -> web.Response:
    """A rollout without its turns and steps, with its attempts and the other repeats."""
    library, opened, entry = library_of(request), source_of(request), entry_of(request)

    def look_up() -> web.Response:
        view = open_or_explain(library, opened, entry).view()
        with opened.reading() as connection, existing_entry(entry):
            found = related(connection, entry)
        others = [each for each in found.siblings if each.id != str(entry)]
        return as_json(_Rollout(str(entry), view, found.is_outcome, others, found.attempts))

    return await library.work(look_up)


async def neighbours(request: web.Request) -> web.Response:
    """The rollouts before and after it in the filtered list."""
    opened, entry = source_of(request), entry_of(request)
    return await answer_from_index(
        request,
        lambda asked: neighbours_of(asked.connection, asked.wanted, opened.orders, entry),
        Filter.of(query_of(request)),
    )


async def turns(request: web.Request) -> web.Response:
    start, count = _portion_of(request, TURNS_LIMIT)
    return await answer_from_document(
        request, lambda it: as_json({"turns": it.turns(start, count)})
    )


async def steps(request: web.Request) -> web.Response:
    start, count = _portion_of(request, STEPS_LIMIT)
    return await answer_from_document(
        request, lambda it: as_json({"steps": it.steps(start, count)})
    )


async def tokens(request: web.Request) -> web.Response:
    """The branches of the exact tokens, or a portion of one of them."""
    named = request.query.get("branch")
    start = natural("from", request.query.get("from") or "0")
    count = natural("count", request.query.get("count") or str(LONGEST_PORTION))

    def read(document: RolloutDocument) -> web.Response:
        try:
            if named is None:
                return as_json(document.tokens())
            runs = document.token_runs(natural("branch", named), start, count)
        except KeyError:
            raise RequestError(
                HTTPStatus.NOT_FOUND, f"This record has no branch {(named or '')[:80]}."
            ) from None
        except TokenError as error:
            raise RequestError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The tokens cannot be shown: {error}."
            ) from None
        return as_json({"runs": runs})

    return await answer_from_document(request, read)


async def find(request: web.Request) -> web.Response:
    """The turns and steps in which a text occurs."""
    text = text_of(request, "q")

    def look(document: RolloutDocument) -> web.Response:
        in_turns, in_steps = document.find(text) if text else ([], [])
        return as_json({"turns": in_turns, "steps": in_steps})

    return await answer_from_document(request, look)


async def raw(request: web.Request) -> web.StreamResponse:
    """The JSON at a pointer."""
    path = request.query.get("path", "")
    answer = await answer_from_document(request, lambda it: json_body(_at(path, it.raw)))
    if request.query.get("download"):
        as_download(answer, f"{source_of(request).source.id}-{entry_of(request)}.json")
    return await send_body(request, answer)


async def text(request: web.Request) -> web.StreamResponse:
    """The whole string at a pointer; for an empty pointer the record as it is in its file."""
    path, opened, entry = text_of(request, "path"), source_of(request), entry_of(request)
    if not path:
        answer = await library_of(request).work(lambda: _plain(_record(opened, entry)))
        return await send_body(request, answer)

    def read(document: RolloutDocument) -> web.Response:
        try:
            found = msgspec.json.decode(_at(path, document.raw), type=str)
        except msgspec.DecodeError:
            raise RequestError(
                HTTPStatus.NOT_FOUND, f"The value at {path[:200]} is not a text. Use /raw for it."
            ) from None
        return _plain(found.encode())

    return await send_body(request, await answer_from_document(request, read))


async def picture(request: web.Request) -> web.Response:
    """A picture in the record."""
    path = text_of(request, "path")
    return await answer_from_document(request, lambda it: _shown(_at(path, it.image)))


async def picture_file(request: web.Request) -> web.Response:
    """A picture in a file of the source."""
    images, name = source_of(request).source.images, request.match_info["file"]
    return await library_of(request).work(lambda: _shown(read_picture(images, name)))


async def har_file(request: web.Request) -> web.StreamResponse:
    """The HAR of a session in a file of the source, to be saved."""
    folder, name = source_of(request).source.images, request.match_info["file"]
    data = await library_of(request).work(lambda: read_har(folder, name))
    answer = web.Response(body=data, content_type="application/octet-stream")
    as_download(answer, f"{source_of(request).source.id}-{name.rpartition('/')[2][:12]}.har")
    return await send_body(request, answer)


async def offline_page(request: web.Request) -> web.StreamResponse:
    """The rollout as one HTML file."""
    library, opened, entry = library_of(request), source_of(request), entry_of(request)
    name = f"{opened.source.id}-{entry}"

    def pieces() -> Iterator[bytes]:
        document = open_or_explain(library, opened, entry)
        yield from page_of(
            document, name=name, picture=lambda image: _picture_of(opened, document, image)
        )

    return await send_download(request, pieces(), "text/html", f"{name}.html")


def _record(opened: OpenSource, entry: EntryId) -> bytes:
    with existing_entry(entry):
        return opened.index().record(entry)


def _plain(body: bytes) -> web.Response:
    """A response of plain text; the browser marks invalid UTF-8."""
    return web.Response(body=body, content_type="text/plain", charset="utf-8")


def _picture_of(
    opened: OpenSource, document: RolloutDocument, image: PictureView
) -> PictureData | None:
    """A picture for the offline page; None if it cannot be read."""
    try:
        if image.path:
            return document.image(image.path)
        return read_picture(opened.source.images, image.file)
    except (KeyError, ValueError, RequestError):
        return None


def _at(path: str, read: Callable[[str], T]) -> T:
    """The value at a pointer. Raises RequestError."""
    try:
        return read(path)
    except KeyError:
        raise RequestError(
            HTTPStatus.NOT_FOUND, f"This record has no value at {path[:200]!r}."
        ) from None
    except ValueError as error:
        raise RequestError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"Cannot show the value at {path[:200]!r}: {error}.",
        ) from None


def _portion_of(request: web.Request, most: int) -> tuple[int, int]:
    """The first turn or step that is wanted, and how many. Raises RequestError."""
    query = request.query
    start, count = query.get("from") or "0", query.get("count") or str(_USUAL_COUNT)
    return natural("from", start), min(natural("count", count), most)


def _shown(found: PictureData) -> web.Response:
    return web.Response(
        body=found.data,
        content_type=found.media_type,
        headers={hdrs.CACHE_CONTROL: _PICTURE_CACHE},
    )


MOST_COMPARED = 32
COMPARED_BYTES = 128 << 20


class _ComparedRepeat(RepeatCell, frozen=True, omit_defaults=True, kw_only=True):
    turns: int
    steps: int


class _RepeatComparison(msgspec.Struct, frozen=True):
    title: str
    task: int
    repeats: list[_ComparedRepeat]
    difference: FirstDifference
    left_out: int


async def repeats(request: web.Request) -> web.Response:
    """The repeats of a task side by side, and their first difference."""
    library, opened = library_of(request), source_of(request)
    task = natural("task", request.match_info["task"])

    def compare() -> _RepeatComparison:
        with opened.reading() as connection:
            found = repeats_of(connection, task)
        if not found:
            raise RequestError(HTTPStatus.NOT_FOUND, f"This source has no rollout of task {task}.")
        shown = dict(islice(_documents_to_compare(library, opened, found), MOST_COMPARED))
        views = {identity: document.view() for identity, document in shown.items()}
        return _RepeatComparison(
            next(iter(views.values())).title,
            task,
            [_compared_repeat(each, views[each.id]) for each in found if each.id in views],
            first_difference(list(shown.values())),
            len(found) - len(shown),
        )

    return as_json(await library.work(compare))


def _documents_to_compare(
    library: Library, opened: OpenSource, found: Iterable[RepeatOutcome]
) -> Iterator[tuple[str, RolloutDocument]]:
    """As many documents as fit into memory side by side, at least one.

    Unreadable ones are left out. Raises RequestError or StorageError if all are unreadable.
    """
    size = 0
    problem: RequestError | StorageError | None = None
    for each in found:
        try:
            document = open_document(library, opened, EntryId.parse(each.id))
        except (RequestError, StorageError) as error:
            problem = error
            continue
        if size and size + document.size > COMPARED_BYTES:
            return
        size += document.size
        yield each.id, document
    if problem is not None and not size:
        raise problem


def _compared_repeat(found: RepeatOutcome, view: RolloutView) -> _ComparedRepeat:
    cell = {name: getattr(found, name) for name in RepeatCell.__struct_fields__}
    return _ComparedRepeat(turns=view.turns, steps=view.steps, **cell)
