"""Why a policy is not served, or does not answer a request."""

from http import HTTPStatus

from rollgym.store import RefusedError


class PoliciesError(RefusedError):
    """The server was not started: the port is taken, or the recordings cannot be read."""


class WrongRequestError(Exception):
    """A request is answered with an error; the message is for whoever sent it."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status
