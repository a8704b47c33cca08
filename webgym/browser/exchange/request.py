"""Reading requests: what is wrong with one is said by name, with what was probably meant."""

import asyncio
from difflib import get_close_matches
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl

import msgspec

from webgym.browser.contract.answers import ImageFormat, Observe
from webgym.browser.contract.commands import InteractionMode
from webgym.browser.contract.errors import BadRequestError

T = TypeVar("T", bound=msgspec.Struct)
MOST_ARGUMENTS = 32
USUAL_DEADLINE, LONGEST_DEADLINE = 60.0, 300.0
LONGEST_WAIT = 600.0
LONGEST_ID = 200
DEADLINE_KEY, OBSERVE_KEY = "deadline_seconds", "observe"

Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_ID)]
DeadlineSeconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_DEADLINE)]


class Request(msgspec.Struct, frozen=True):
    """What a client asks. `query` is as it came, without the question mark.

    `deadline` is what the caller's headers say, in the event loop's time.
    """

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    client: str = ""
    deadline: float | None = None

    def until(self, seconds: float | None) -> float:
        """When the answer is due, for the deadline that the request itself names."""
        due = asyncio.get_running_loop().time() + (USUAL_DEADLINE if seconds is None else seconds)
        return due if self.deadline is None else min(due, self.deadline)


class GetQuery(msgspec.Struct, frozen=True):
    """`instance_id` is what masters call the session that they ask a node for."""

    lifetime_mins: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] | None = None
    instance_id: Annotated[str, msgspec.Meta(min_length=22, max_length=LONGEST_ID)] | None = None


class NoQuery(msgspec.Struct, frozen=True):
    """No arguments."""


class Address(msgspec.Struct, frozen=True):
    """Which session a request is for. Where there is one node only, `node` may be left out."""

    instance_id: Identifier | None = None
    node: Identifier | None = None
    deadline_seconds: DeadlineSeconds | None = None

    @property
    def session(self) -> str:
        """Raises BadRequestError where it is missing."""
        if self.instance_id is None:
            raise BadRequestError("instance_id is missing: give the one that POST /get answered")
        return self.instance_id


class ScreenshotQuery(Address, frozen=True):
    interaction_mode: InteractionMode = "set_of_marks"
    format: ImageFormat = "png"
    quality: Annotated[int, msgspec.Meta(ge=0, le=100)] = 80


class StepBody(Address, frozen=True):
    observe: Observe = Observe()


_OBJECT = msgspec.json.Decoder(dict[str, object])
_ADDRESS = msgspec.json.Decoder(Address, strict=False)
_STEP = msgspec.json.Decoder(StepBody, strict=False)


def read_query(query: str, kind: type[T]) -> T:
    """The arguments in a query; an empty one counts as left out. Raises BadRequestError."""
    try:
        pairs = parse_qsl(query, keep_blank_values=False, max_num_fields=MOST_ARGUMENTS)
    except ValueError as error:
        raise BadRequestError(f"the query cannot be read: {error}") from error
    given = dict(pairs)
    if len(given) < len(pairs):
        raise BadRequestError("an argument of the query is given twice")
    known = kind.__struct_fields__
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else _what_there_is(known)
            raise BadRequestError(f"there is no argument {name[:60]!r}: {hint}")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the query is wrong: {error}") from error


def read_query_address(query: str) -> Address:
    """Which session a query is about, whatever else it says. Raises BadRequestError."""
    names = Address.__struct_fields__
    given = {name: value for name, value in parse_qsl(query) if name in names}
    try:
        return msgspec.convert(given, Address, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the query is wrong: {error}") from error


def read_address(body: bytes) -> Address:
    """Which session a body is about, whatever else it says. Raises BadRequestError."""
    return _decode(_ADDRESS, body)


def read_step(body: bytes) -> StepBody:
    """What a step besides its command asks for. Raises BadRequestError."""
    return _decode(_STEP, body)


def read_object(body: bytes) -> dict[str, object]:
    """A body that must be a JSON object. Raises BadRequestError."""
    return _decode(_OBJECT, body)


D = TypeVar("D")


def _decode(decoder: "msgspec.json.Decoder[D]", body: bytes) -> D:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"the body is wrong: {error}") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadRequestError(f"the body must be a JSON object: {error}") from error


def _what_there_is(known: tuple[str, ...]) -> str:
    return f"there are {', '.join(known)}" if known else "there are none"
