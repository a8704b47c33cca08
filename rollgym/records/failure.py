"""Why a rollout has no reward: the whole error model.

*Vocabulary.* `FailureKind` is flat: each kind names the boundary that broke. `TRAITS` says for
each whether a retry can help and whether it is a sign of overload.

*Raising.* Code that knows what broke raises a `RolloutError` subclass. Other code, such as a
plug-in, raises ordinary Python exceptions; `boundary(ToolError)` around the call attributes them.
An exception that crosses no boundary is `internal`: a bug, recorded with its traceback.

*Recording.* `Failure.of(exception)` is the one place where an exception becomes data. Texts are
bounded, and tracebacks are rendered without reading source files, so that a storm of failures
costs little.
"""

from collections.abc import Iterator
from enum import StrEnum
from traceback import walk_tb
from typing import ClassVar, NamedTuple

import msgspec

DETAIL_LIMIT = 4_000
TRACEBACK_FRAMES = 25
CAUSE_LIMIT = 8
LONGEST_WAIT = 1e9


class FailureKind(StrEnum):
    """The boundary that broke."""

    MODEL_RATE_LIMIT = "model_rate_limit"
    MODEL_UNAVAILABLE = "model_unavailable"
    MODEL_MALFORMED = "model_malformed"
    MODEL_REQUEST = "model_request"
    MODEL_CONTEXT = "model_context"
    MODEL_AUTH = "model_auth"
    TOOL = "tool"
    ENVIRONMENT = "environment"
    VERIFIER = "verifier"
    BROWSER = "browser"
    BROWSER_UNAVAILABLE = "browser_unavailable"
    AGENT = "agent"
    TASK = "task"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    INTERNAL = "internal"


class Traits(NamedTuple):
    """The properties of a failure kind; a single failure can override `retryable`."""

    meaning: str
    retryable: bool
    overload: bool = False


TRAITS: dict[FailureKind, Traits] = {
    FailureKind.MODEL_RATE_LIMIT: Traits("the model endpoint asked us to slow down", True, True),
    FailureKind.MODEL_UNAVAILABLE: Traits("the model endpoint cannot be reached", True, True),
    FailureKind.MODEL_MALFORMED: Traits("the model endpoint's answer cannot be read", True),
    FailureKind.MODEL_REQUEST: Traits("the model endpoint rejected the request", False),
    FailureKind.MODEL_CONTEXT: Traits("the conversation exceeds the model's context", False),
    FailureKind.MODEL_AUTH: Traits("the model endpoint rejected the credentials", False),
    FailureKind.TOOL: Traits("the server of a tool failed", True),
    FailureKind.ENVIRONMENT: Traits("the environment's session failed", True),
    FailureKind.VERIFIER: Traits("the verifier gave no usable reward", True),
    FailureKind.BROWSER: Traits("the browser session was lost", True),
    FailureKind.BROWSER_UNAVAILABLE: Traits("no browser session was available", True, True),
    FailureKind.AGENT: Traits("the agent loop failed", False),
    FailureKind.TASK: Traits("the task itself cannot be run", False),
    FailureKind.TIMEOUT: Traits("the deadline passed", True, True),
    FailureKind.CANCELLED: Traits("the work was cancelled from outside", True),
    FailureKind.INTERNAL: Traits("a bug in the worker", False),
}


class RolloutError(Exception):
    """Base of the typed errors a worker may raise; the rollout then fails with `kind`.

    `retryable` overrides the trait of the kind. `retry_after` is the wait in seconds that the
    other side asked for.
    """

    kind: ClassVar[FailureKind] = FailureKind.INTERNAL
    # Defaults of the class, for subclasses that do not call our __init__.
    retryable: bool | None = None
    retry_after: float | None = None
    recorded: "Failure | None" = None
    """The failure as another process reported it, with the causes that only that process knows."""
    partial: bytes | None = None
    """JSON of the interaction up to the failure."""

    def __init__(
        self, detail: str, *, retryable: bool | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.retryable = retryable
        self.retry_after = retry_after


class ModelRateLimitError(RolloutError):
    kind = FailureKind.MODEL_RATE_LIMIT


class ModelUnavailableError(RolloutError):
    kind = FailureKind.MODEL_UNAVAILABLE


class ModelMalformedError(RolloutError):
    kind = FailureKind.MODEL_MALFORMED


class ModelRequestError(RolloutError):
    kind = FailureKind.MODEL_REQUEST
    status: int | None = None
    """The HTTP status, if an endpoint rejected the request."""


class ModelContextError(RolloutError):
    kind = FailureKind.MODEL_CONTEXT


class ModelAuthError(RolloutError):
    kind = FailureKind.MODEL_AUTH


class ToolError(RolloutError):
    kind = FailureKind.TOOL


class EnvironmentSessionError(RolloutError):
    kind = FailureKind.ENVIRONMENT


class VerifierError(RolloutError):
    kind = FailureKind.VERIFIER


class BrowserError(RolloutError):
    kind = FailureKind.BROWSER


class BrowserUnavailableError(RolloutError):
    kind = FailureKind.BROWSER_UNAVAILABLE


class AgentError(RolloutError):
    kind = FailureKind.AGENT


class TaskError(RolloutError):
    kind = FailureKind.TASK


class DeadlineError(RolloutError):
    kind = FailureKind.TIMEOUT


# Only the classes above: the constructor of a plug-in's subclass may take other arguments.
_ERRORS = {error.kind: error for error in RolloutError.__subclasses__()}


class boundary:  # noqa: N801 - read as a function: `with boundary(ToolError):`
    """Attribute every untyped exception that crosses this block to the boundary of `error`.

    A typed exception passes unchanged, also out of the exception group of a task group.
    """

    __slots__ = ("_error",)

    def __init__(self, error: type[RolloutError]) -> None:
        self._error = error

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, cause: BaseException | None, __: object) -> None:
        if not isinstance(cause, Exception) or isinstance(cause, RolloutError):
            return
        reported = _reported(cause)
        if isinstance(reported, RolloutError):
            raise reported from cause
        raise self._error(f"{type(reported).__name__}: {_message(reported)}") from cause


class Cause(msgspec.Struct, frozen=True):
    """One exception of the chain that led to a failure."""

    type: str
    message: str


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What broke, whether a retry can help, and the chain of causes."""

    kind: FailureKind
    detail: str
    retryable: bool = False
    retry_after: float | None = None
    causes: tuple[Cause, ...] = ()
    traceback: str | None = None

    @classmethod
    def make(cls, kind: FailureKind, detail: str, *, retry_after: float | None = None) -> "Failure":
        """Make a failure without an exception; its kind decides whether it is retryable."""
        return cls(kind, shorten(detail), TRAITS[kind].retryable, retry_after)

    @classmethod
    def of(cls, exception: BaseException) -> "Failure":
        """Turn an exception of a worker into data."""
        reported = _reported(exception)
        if isinstance(reported, RolloutError) and isinstance(reported.recorded, Failure):
            return reported.recorded
        causes, message = tuple(_causes(exception, reported)), _message(reported)
        if isinstance(reported, RolloutError) and isinstance(reported.kind, FailureKind):
            retryable = reported.retryable
            if not isinstance(retryable, bool):
                retryable = TRAITS[reported.kind].retryable
            return cls(reported.kind, message, retryable, _usable_wait(reported), causes)
        timed_out = isinstance(reported, TimeoutError)
        kind = FailureKind.TIMEOUT if timed_out else FailureKind.INTERNAL
        named = f"{type(reported).__name__}: {message}"
        return cls(kind, named, TRAITS[kind].retryable, None, causes, _render(reported))


def error_of(failure: Failure) -> RolloutError:
    """Return the typed error to raise for a failure that another process recorded."""
    error = _ERRORS.get(failure.kind, RolloutError)(
        failure.detail, retryable=failure.retryable, retry_after=failure.retry_after
    )
    error.recorded = failure
    return error


def _reported(exception: BaseException) -> BaseException:
    """The exception to report: the first of an exception group whose members are of one kind.

    A task group wraps even a single error. A group of different kinds is reported itself.
    """
    leaves = _leaves(exception)
    kinds = [leaf.kind if isinstance(leaf, RolloutError) else type(leaf) for leaf in leaves]
    return leaves[0] if all(kind == kinds[0] for kind in kinds) else exception


def _leaves(exception: BaseException) -> list[BaseException]:
    if not isinstance(exception, BaseExceptionGroup):
        return [exception]
    return [leaf for part in exception.exceptions for leaf in _leaves(part)]


def _usable_wait(error: RolloutError) -> float | None:
    """The requested wait, if it is a sensible number: it may come from any header."""
    wait = error.retry_after
    return float(wait) if isinstance(wait, int | float) and 0 <= wait <= LONGEST_WAIT else None


def shorten(text: str, limit: int = DETAIL_LIMIT) -> str:
    """Cut a text to `limit` characters and say how many were cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"


def _message(exception: BaseException) -> str:
    """The exception's text, bounded and encodable, even where its `__str__` raises."""
    try:
        text = str(exception)
    except Exception as error:  # noqa: BLE001 - a plug-in's __str__ may do anything
        text = f"(its message cannot be shown: {type(error).__name__})"
    return shorten(text).encode("utf-8", "replace").decode("utf-8")


def _causes(exception: BaseException, reported: BaseException) -> Iterator[Cause]:
    """The other members of a group, then the chain of causes of the reported exception."""
    seen: dict[int, BaseException] = {id(reported): reported}
    for leaf in _leaves(exception):
        seen.setdefault(id(leaf), leaf)
    cause = _cause(reported)
    while cause is not None and id(cause) not in seen and len(seen) <= CAUSE_LIMIT:
        seen[id(cause)] = cause
        cause = _cause(cause)
    for member in list(seen.values())[1 : CAUSE_LIMIT + 1]:
        if not isinstance(member, BaseExceptionGroup):
            yield Cause(type(member).__qualname__, _message(member))


def _cause(exception: BaseException) -> BaseException | None:
    """The exception that a traceback would show before this one."""
    if exception.__cause__ is not None or exception.__suppress_context__:
        return exception.__cause__
    return exception.__context__


def _render(exception: BaseException) -> str:
    frames = [
        f'File "{frame.f_code.co_filename}", line {line}, in {frame.f_code.co_qualname}'
        for frame, line in walk_tb(exception.__traceback__)
    ]
    if len(frames) > TRACEBACK_FRAMES:
        half = TRACEBACK_FRAMES // 2
        frames[half:-half] = [f"({len(frames) - 2 * half} more frames)"]
    return "\n".join(frames)
