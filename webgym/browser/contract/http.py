"""HTTP messages of the browser server: reading requests and writing answers.

An error in a request is reported by the name of the argument, with the argument that was probably
meant.
"""

import asyncio
import math
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.servers.exchange import Answer, RefusedRequestError, json_answer
from rollgym.suggestions import nearest
from webgym.browser.contract.answers import (
    VIEWPORT_HEIGHT,
    VIEWPORT_WIDTH,
    ImageFormat,
    Observe,
    Picture,
)
from webgym.browser.contract.commands import LONGEST_DEADLINE, LONGEST_WAIT, InteractionMode
from webgym.browser.contract.errors import (
    BadRequestError,
    ErrorBody,
    WireError,
    WireErrorDetail,
    error_body,
)
from webgym.browser.contract.profile import DEFAULT_PROFILE, RecordingKind, SessionProfile

T = TypeVar("T", bound=msgspec.Struct)
MOST_ARGUMENTS = 32
DEFAULT_DEADLINE = 60.0
LONGEST_ID = 200
DEADLINE_KEY, OBSERVE_KEY = "deadline_seconds", "observe"

Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]
DeadlineSeconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_DEADLINE)]


class BrowserRequest(msgspec.Struct, frozen=True):
    """A request of a client. `query` is the raw query without the question mark.

    `deadline` comes from the headers of the caller, in the time of the event loop.
    """

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    client: str = ""
    deadline: float | None = None

    def until(self, seconds: float | None) -> float:
        """When the answer is due, for the number of seconds that the request names."""
        due = asyncio.get_running_loop().time() + (DEFAULT_DEADLINE if seconds is None else seconds)
        return due if self.deadline is None else min(due, self.deadline)


class GetQuery(msgspec.Struct, frozen=True):
    """`instance_id` is the identifier that a master chooses for a session of a node."""

    lifetime_mins: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] | None = None
    instance_id: Annotated[str, msgspec.Meta(min_length=22, max_length=LONGEST_ID)] | None = None


class NoQuery(msgspec.Struct, frozen=True):
    """No arguments."""


class SessionReference(msgspec.Struct, frozen=True):
    """The session that a request is for. `node` may be left out if there is only one node."""

    instance_id: Identifier | None = None
    node: Identifier | None = None
    deadline_seconds: DeadlineSeconds | None = None

    @property
    def session(self) -> str:
        """Raises BadRequestError if it is missing."""
        if self.instance_id is None:
            raise BadRequestError("instance_id is missing: give the one that POST /get answered")
        return self.instance_id


class ScreenshotQuery(SessionReference, frozen=True):
    interaction_mode: InteractionMode = "set_of_marks"
    format: ImageFormat = "png"
    quality: Annotated[int, msgspec.Meta(ge=0, le=100)] = 80


class RecordingQuery(SessionReference, frozen=True):
    kind: RecordingKind = "har"


class StepBody(SessionReference, frozen=True):
    observe: Observe = Observe()


R = TypeVar("R", bound=SessionReference)
_NEARLY = 0.8
_OBJECT = JsonDecoder(dict[str, object])
_REFERENCE = JsonDecoder(SessionReference, strict=False)
_STEP = JsonDecoder(StepBody, strict=False)
_PROFILE = JsonDecoder(SessionProfile)


def read_query(query: str, kind: type[T]) -> T:
    """The arguments of a query. An empty one counts as missing. Raises BadRequestError.

    Other arguments beside those of a session are ignored, because other clients send back the whole
    answer of `POST /get`, unless they are nearly the name of an argument.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=False, max_num_fields=MOST_ARGUMENTS)
    except ValueError as error:
        raise BadRequestError(f"the query cannot be read: {error}") from error
    given = dict(pairs)
    if len(given) < len(pairs):
        raise BadRequestError("an argument of the query is given twice")
    known = kind.__struct_fields__
    tolerant = issubclass(kind, SessionReference)
    for name in given:
        if name not in known:
            near = nearest(name, known, _NEARLY if tolerant else 0.6)
            if tolerant and not near:
                continue
            hint = f"did you mean {near}?" if near else _known_arguments(known)
            raise BadRequestError(f"unknown argument {name[:60]!r}: {hint}")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the query is invalid: {error}") from error


def read_profile(body: bytes) -> SessionProfile:
    """The profile in the body of `POST /get`; without a body the default. Raises BadRequestError.

    Other keys are ignored, unless they are nearly the name of one, as in a query.
    """
    if not body.strip():
        return DEFAULT_PROFILE
    known = SessionProfile.__struct_fields__
    for name in read_object(body):
        near = None if name in known else nearest(name, known, _NEARLY)
        if near:
            raise BadRequestError(f"unknown key {name[:60]!r}: did you mean {near}?")
    profile = _decode(_PROFILE, body)
    profile.check()
    return profile


def read_query_session(query: str) -> SessionReference:
    """The session that a query is for; other arguments are ignored. Raises BadRequestError."""
    names = SessionReference.__struct_fields__
    given = {name: value for name, value in parse_qsl(query) if name in names}
    try:
        return msgspec.convert(given, SessionReference, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the query is invalid: {error}") from error


def read_session_reference(request: BrowserRequest) -> SessionReference:
    """The session that a request with a body is for; other keys are ignored.

    A session that the body does not name may be in the query. Raises BadRequestError.
    """
    return _with_query(_decode(_REFERENCE, request.body), request.query)


def read_step(request: BrowserRequest) -> StepBody:
    """The arguments of a step besides its command. Raises BadRequestError."""
    return _with_query(_decode(_STEP, request.body), request.query)


def _with_query(reference: R, query: str) -> R:
    if reference.instance_id is not None or not query:
        return reference
    given = read_query_session(query)
    return msgspec.structs.replace(reference, instance_id=given.instance_id, node=given.node)


def read_object(body: bytes) -> dict[str, object]:
    """A body as a JSON object. Raises BadRequestError."""
    return _decode(_OBJECT, body)


D = TypeVar("D")


def _decode(decoder: "JsonDecoder[D]", body: bytes) -> D:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the body is invalid: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the body must be a JSON object: {error}") from error


def _known_arguments(known: tuple[str, ...]) -> str:
    return f"the arguments are {', '.join(known)}" if known else "it takes none"


DEFAULT_RETRY = 1.0
RETRY_AFTER = "retry-after"
AVAILABLE_HEADER = "x-sessions-available"
VIEWPORT_ANSWER = json_answer({"width": VIEWPORT_WIDTH, "height": VIEWPORT_HEIGHT})
"""The answer of `GET /metadata`."""
_ASK_AGAIN = frozenset((429, 503))


def success(**fields: object) -> Answer:
    return json_answer({"status": "success", **fields})


def picture_answer(picture: Picture) -> Answer:
    return Answer(200, picture.data, picture.media_type, headers={"cache-control": "no-store"})


def error_answer(error: WireError, status: int | None = None) -> Answer:
    """The answer that reports an error. `status` replaces the status of its class."""
    status = error.status if status is None else status
    headers = {}
    if status in _ASK_AGAIN:
        seconds = getattr(error, "retry_after", None)
        # Whole seconds, as HTTP defines it: some clients fail on fractions.
        headers[RETRY_AFTER] = str(math.ceil(DEFAULT_RETRY if seconds is None else seconds))
    return Answer(status, error_body(error), headers=headers)


def rejection_answer(error: RefusedRequestError) -> Answer:
    return error_answer(BadRequestError(str(error)), error.status)


def internal_error_answer(error: Exception) -> Answer:
    """The answer for an unexpected error. The log of the server has the traceback."""
    message = f"the browser server failed: {type(error).__name__}: {error}"
    return json_answer(ErrorBody(WireErrorDetail("internal", message), message), 500)
