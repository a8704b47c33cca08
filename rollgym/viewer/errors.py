"""Why there is nothing to see."""

from http import HTTPStatus

from rollgym.store import RefusedError


class ViewerError(RefusedError):
    """The viewer was not started."""


class RequestError(Exception):
    """A page cannot be shown; the reader gets the message instead."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
