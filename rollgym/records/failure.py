"""Why a rollout has no reward: the whole error model.

*Vocabulary.* `FailureKind` is flat: each kind names the boundary that broke. `TRAITS` says for
each whether a retry can help and whether it is a sign of overload.

*Raising.* Code that knows what broke raises a `RolloutError` subclass. Other code, such as a
plug-in, raises ordinary Python exceptions; `boundary(ToolError)` around the call attributes them.
An exception that crosses no boundary is `internal`: a bug, recorded with its traceback.

*Recording.* `Failure.of(exception)` is the one place where an exception becomes data. Texts are
bounded, and tracebacks are rendered without reading source files, so that a storm of failures
costs little.

*Bugs.* An exception that a plug-in did not mean is recorded with its traceback and with the line of
the plug-in that raised it. The same exception at the same line again is a bug and not bad luck, so
`Failure.bug` identifies it. Errors of networks and timeouts happen at the same line every time and
still go away: they are `transient` and never a bug.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar, NamedTuple

import msgspec

from rollgym.records.origin import (
    CAUSE_LIMIT,
    Origin,
    cause_of,
    encodable,
    is_transient,
    leaves,
)

DETAIL_LIMIT = 4_000
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
    WORKER = "worker"
    CRASH = "crash"
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
    FailureKind.TOOL: Traits("a tool or its server failed", True),
    FailureKind.ENVIRONMENT: Traits("the environment's session failed", True),
    FailureKind.VERIFIER: Traits("the verifier gave no usable reward", True),
    FailureKind.BROWSER: Traits("the browser session was lost", True),
    FailureKind.BROWSER_UNAVAILABLE: Traits("no browser session was available", True, True),
    FailureKind.AGENT: Traits("the agent loop failed", False),
    FailureKind.TASK: Traits("the task itself cannot be run", False),
    FailureKind.TIMEOUT: Traits("the deadline passed", True, True),
    FailureKind.CANCELLED: Traits("the work was cancelled from outside", True),
    FailureKind.WORKER: Traits("the attempt's worker process was lost", True),
    FailureKind.CRASH: Traits("the rollout froze or killed the process", True),
    FailureKind.INTERNAL: Traits("a bug in the worker", False),
}


class UpstreamAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error answer of a model endpoint: its HTTP status, and its names for the error."""

    status: int
    type: str | None = None
    code: str | None = None
    param: str | None = None


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
    unexpected: BaseException | None = None
    """The exception of a plug-in that a `boundary` attributed."""
    upstream: UpstreamAnswer | None = None
    """The answer of the model endpoint that is reported, where there was one."""

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


class WorkerLostError(RolloutError):
    kind = FailureKind.WORKER


# Only the classes above: the constructor of a plug-in's subclass may take other arguments.
_ERRORS = {error.kind: error for error in RolloutError.__subclasses__()}


class boundary:  # noqa: N801 - read as a function: `with boundary(ToolError):`
    """Attribute every untyped exception that crosses this block to the boundary of `error`.

    A typed exception passes unchanged, also out of the exception group of a task group. A transient
    one can be retried, whatever the kind says.
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
        error = self._error(
            f"{type(reported).__name__}: {_message(reported)}",
            retryable=True if is_transient(cause) else None,
        )
        error.unexpected = reported
        raise error from cause


class Cause(msgspec.Struct, frozen=True):
    """One exception of the chain that led to a failure."""

    type: str
    message: str


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What broke, whether a retry can help, and the chain of causes.

    The fields from `traceback` on are those of an exception that was not meant: `exception` is its
    type, `file` and `line` say where the code of a plug-in raised it or called what raised it, and
    `transient` says that it is an error of the network or a timeout.
    """

    kind: FailureKind
    detail: str
    retryable: bool = False
    retry_after: float | None = None
    causes: tuple[Cause, ...] = ()
    traceback: str | None = None
    exception: str | None = None
    file: str | None = None
    line: int | None = None
    transient: bool = False

    @property
    def bug(self) -> tuple[str, str, int] | None:
        """The exception and its place, by which a bug is recognised; None for other failures."""
        if self.transient or self.exception is None or self.file is None or self.line is None:
            return None
        return self.exception, self.file, self.line

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
            failure = cls(reported.kind, message, retryable, _usable_wait(reported), causes)
            unexpected = reported.unexpected
            return _located(failure, unexpected) if unexpected is not None else failure
        timed_out = isinstance(reported, TimeoutError)
        kind = FailureKind.TIMEOUT if timed_out else FailureKind.INTERNAL
        named = f"{type(reported).__name__}: {message}"
        return _located(cls(kind, named, TRAITS[kind].retryable, None, causes), reported)


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
    members = leaves(exception)
    kinds = [leaf.kind if isinstance(leaf, RolloutError) else type(leaf) for leaf in members]
    return members[0] if all(kind == kinds[0] for kind in kinds) else exception


def read_seconds(text: str, longest: float = LONGEST_WAIT) -> float | None:
    """The seconds that a header says; None for another text and for more than the longest."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= longest else None


def _usable_wait(error: RolloutError) -> float | None:
    """The requested wait, if it is a sensible number: it may come from any header."""
    wait = error.retry_after
    return float(wait) if isinstance(wait, int | float) and 0 <= wait <= LONGEST_WAIT else None


def shorten(text: str, limit: int = DETAIL_LIMIT) -> str:
    """Cut a text to `limit` characters and say how many were cut."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"


def cut_text(text: str, limit: int) -> str:
    """At most `limit` characters, the last of them an ellipsis if the text is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _message(exception: BaseException) -> str:
    """The exception's text, bounded and encodable, even where its `__str__` raises."""
    try:
        text = str(exception)
    except Exception as error:  # noqa: BLE001 - a plug-in's __str__ may do anything
        text = f"(its message cannot be shown: {type(error).__name__})"
    return encodable(shorten(text))


def _causes(exception: BaseException, reported: BaseException) -> Iterator[Cause]:
    """The other members of a group, then the chain of causes of the reported exception."""
    seen: dict[int, BaseException] = {id(reported): reported}
    for leaf in leaves(exception):
        seen.setdefault(id(leaf), leaf)
    cause = cause_of(reported)
    while cause is not None and id(cause) not in seen and len(seen) <= CAUSE_LIMIT:
        seen[id(cause)] = cause
        cause = cause_of(cause)
    for member in list(seen.values())[1 : CAUSE_LIMIT + 1]:
        if not isinstance(member, BaseExceptionGroup):
            yield Cause(type(member).__qualname__, _message(member))


def _located(failure: Failure, unexpected: BaseException) -> Failure:
    """The failure with the traceback and the place of an exception that was not meant."""
    origin = Origin.of(unexpected)
    return msgspec.structs.replace(
        failure,
        traceback=origin.traceback or None,
        exception=type(unexpected).__qualname__,
        file=origin.file,
        line=origin.line,
        transient=is_transient(unexpected),
    )
