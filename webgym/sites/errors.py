"""Why a site was not served, a page not shown, or an attempt not judged."""

from http import HTTPStatus

from rollgym.store import RefusedError


class SitesError(RefusedError):
    """The sites were not started, or their tasks not read."""


class TruthError(Exception):
    """An attempt cannot be judged: what the visitor did is not known.

    This is no reward of 0. The sites were restarted, or forgot the visitor.
    """


class PageError(Exception):
    """A page cannot be shown; the visitor gets the message instead."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class BadRequestError(PageError):
    """What was asked for makes no sense."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, message)


class MissingPageError(PageError):
    """There is nothing at this address."""

    def __init__(self, message: str) -> None:
        super().__init__(HTTPStatus.NOT_FOUND, message)
