"""Errors of the viewer."""

from http import HTTPStatus

from rollgym.store import RefusedError


class ViewerError(RefusedError):
    """The viewer cannot be started."""


class RequestError(Exception):
    """A request cannot be answered; the response has this status and message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
