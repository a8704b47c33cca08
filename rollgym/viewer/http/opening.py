"""The document that a request is about, and what is said where it cannot be opened."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from aiohttp import web

from rollgym.viewer.errors import PageError
from rollgym.viewer.http.answers import entry_of, library_of, no_entry, shelf_of
from rollgym.viewer.index import EntryId
from rollgym.viewer.index.unreadable import reason_of
from rollgym.viewer.library import Library
from rollgym.viewer.shelf import Shelf
from rollgym.viewer.view import Document


async def of_document(
    request: web.Request, answer: Callable[[Document], web.Response]
) -> web.Response:
    """Have a thread answer from the record that the URL names. Raises PageError, StorageError."""
    library, shelf, entry = library_of(request), shelf_of(request), entry_of(request)

    return await library.work(lambda: answer(opened(library, shelf, entry)))


def opened_anyway(library: Library, shelf: Shelf, entry: EntryId) -> Document:
    """Of what is no record, a document that says so. Raises PageError, StorageError."""
    with known(entry):
        try:
            return library.document(shelf, entry)
        except ValueError as error:
            return shelf.unreadable(entry, reason_of(error))


def opened(library: Library, shelf: Shelf, entry: EntryId) -> Document:
    """Raises PageError, StorageError."""
    with known(entry):
        try:
            return library.document(shelf, entry)
        except ValueError as error:
            raise PageError(
                HTTPStatus.UNPROCESSABLE_ENTITY, f"This record cannot be shown: {error}."
            ) from error


@contextmanager
def known(entry: EntryId) -> Iterator[None]:
    """Where there is no such entry, or not any more, it is the client that is told.

    Raises PageError (404) for a KeyError.
    """
    try:
        yield
    except KeyError:
        raise no_entry(str(entry)) from None
