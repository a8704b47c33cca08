"""Errors of the sites: not started, a page not shown, an attempt not scored."""

from http import HTTPStatus

from rollgym.store import RefusedError


class SitesError(RefusedError):
    """The sites were not started, or their tasks could not be read."""


class StateError(Exception):
    """An attempt cannot be scored, because the state of its session is unknown.

    That is a failure, not a reward of 0: the sites were restarted, or removed the session.
    """


class PageError(Exception):
    """A page cannot be shown; the visitor gets this message instead."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class InvalidInputError(PageError):
    """The visitor sent a form or a URL that is not valid."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, message)


class MissingPageError(PageError):
    """The address has no page."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, message)
