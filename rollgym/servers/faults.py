"""Typed failures on the wire.

A `RolloutError` that leaves a server becomes an answer with a header that names its kind and a body
that holds the whole failure. The client raises it again, so that a failure reads the same whatever
boundaries it crossed. An answer without the header is the server's own word, and no failure of the
rollout until its caller says so.
"""

import msgspec

from rollgym.records import Failure, FailureKind, RolloutError, error_of
from rollgym.servers.exchange import Answer

FAILURE_HEADER = "x-rollgym-failure"

_STATUS = {
    FailureKind.MODEL_RATE_LIMIT: 429,
    FailureKind.MODEL_UNAVAILABLE: 503,
    FailureKind.MODEL_MALFORMED: 502,
    FailureKind.MODEL_REQUEST: 400,
    FailureKind.MODEL_CONTEXT: 400,
    FailureKind.MODEL_AUTH: 401,
    FailureKind.TOOL: 502,
    FailureKind.ENVIRONMENT: 503,
    FailureKind.BROWSER: 502,
    FailureKind.BROWSER_UNAVAILABLE: 503,
    FailureKind.TASK: 422,
    FailureKind.TIMEOUT: 504,
}


class _Body(msgspec.Struct):
    error: Failure
    partial: msgspec.Raw = msgspec.Raw(b"null")


_BODY = msgspec.json.Decoder(_Body)


def fault_answer(error: BaseException) -> Answer:
    """What a server says when this was raised in it."""
    failure = Failure.of(error)
    body: dict[str, object] = {
        "error": {
            "message": failure.detail,
            "type": failure.kind,
            **msgspec.to_builtins(failure),
        }
    }
    partial = getattr(error, "partial", None)
    if isinstance(partial, bytes):
        body["partial"] = msgspec.Raw(partial)
    headers = {FAILURE_HEADER: str(failure.kind)}
    if failure.retry_after is not None:
        headers["retry-after"] = f"{failure.retry_after:.3f}".rstrip("0").rstrip(".")
    status = _STATUS.get(failure.kind, 500)
    return Answer(status, msgspec.json.encode(body), headers=headers)


def fault_in(answer: Answer) -> RolloutError | None:
    """The failure that an answer reports, as the error to raise; None where it reports none."""
    if FAILURE_HEADER not in answer.headers:
        return None
    try:
        body = _BODY.decode(answer.body)
    except ValueError:
        return None
    error = error_of(body.error)
    if bytes(body.partial) != b"null":
        error.partial = bytes(body.partial)
    return error
