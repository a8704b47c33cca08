"""Writing answers: values as JSON, pictures as they are, errors as the contract writes them."""

import math

from rollgym.servers.exchange import Answer, RefusedRequestError, json_answer
from webgym.browser.contract.answers import Picture
from webgym.browser.contract.errors import (
    BadRequestError,
    ErrorBody,
    WireError,
    WireFault,
    error_body,
)

USUAL_RETRY = 1.0
RETRY_AFTER = "retry-after"
AVAILABLE_HEADER = "x-sessions-available"
_ASK_AGAIN = frozenset((429, 503))


def success(**fields: object) -> Answer:
    return json_answer({"status": "success", **fields})


def picture_answer(picture: Picture) -> Answer:
    return Answer(200, picture.data, picture.media_type, headers={"cache-control": "no-store"})


def error_answer(error: WireError, status: int | None = None) -> Answer:
    """What the client is told; `status` where it says more than that of the error's class."""
    status = error.status if status is None else status
    headers = {}
    if status in _ASK_AGAIN:
        seconds = getattr(error, "retry_after", None)
        # Whole seconds: HTTP knows no others, and there are clients that fail over them.
        headers[RETRY_AFTER] = str(math.ceil(USUAL_RETRY if seconds is None else seconds))
    return Answer(status, error_body(error), headers=headers)


def refusal_answer(error: RefusedRequestError) -> Answer:
    return error_answer(BadRequestError(str(error)), error.status)


def bug_answer(error: Exception) -> Answer:
    """Something broke that nobody expected. The server's log has the traceback."""
    message = f"the browser server failed: {type(error).__name__}: {error}"
    return json_answer(ErrorBody(WireFault("internal", message), message), 500)
