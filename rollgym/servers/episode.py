"""One episode of an agent: its model, its tools, its tokens and its times.

An agent's loop calls the model and the tools through `Episode`. It keeps the cookies of each
server, adds up tokens and the seconds of each phase, and records when the first calls happened.

*Spans* are the times of the calls. They cross from an agent to its caller in a header beside the
sums of the phases, or with the partial result of an episode that failed:
`[[phase, start, length, label], …]`, in whole microseconds since the start of the episode. A header
has to stay well below the 8 KiB that HTTP libraries accept, so only the first calls of a long
episode have spans; the sums count all calls.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from rollgym.records import (
    NO_USAGE,
    ModelMalformedError,
    ModelUnavailableError,
    Span,
    ToolError,
    Usage,
)
from rollgym.servers.client import ServerClient
from rollgym.servers.exchange import CookieJar, error_answer
from rollgym.servers.responses import Response
from rollgym.servers.tools import RESERVED_NAMES, result_text

_OBJECT = msgspec.json.Decoder(dict[str, Any])


SPANS_HEADER = "x-rollgym-spans"
MOST_SPANS = 100
LONGEST_HEADER = 6_000
LONGEST_LABEL = 40
_MICROSECONDS = 1e6
Timed = tuple[str, float, float, str]
"""A call of an episode: phase, start and end by the performance counter, label."""
WireSpan = tuple[str, int, int, str]
_Microseconds = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
_SPANS = msgspec.json.Decoder(list[tuple[str, _Microseconds, _Microseconds, str]])
_ENCODER = msgspec.json.Encoder()


class Episode:
    """The model, the tools and the session of one rollout, for an agent.

    `tool_timeout` and `model_timeout` bound each call. `cookies` are those of a session that the
    caller of the agent has already seeded.
    """

    def __init__(
        self,
        model: ServerClient,
        resources: ServerClient,
        *,
        tool_timeout: float,
        model_timeout: float,
        cookies: Mapping[str, str] | None = None,
    ) -> None:
        self._model = model
        self._tool_timeout = tool_timeout
        self._model_timeout = model_timeout
        self.resources = resources
        self.resources_jar = CookieJar(cookies)
        self.model_jar = CookieJar()
        self.closable = False
        """Whether the environment has a session that can be closed without a verdict."""
        self.output: list[dict[str, Any]] = []
        """The trajectory so far, as items of the Responses API; the agent adds to it."""
        self.response: dict[str, Any] | None = None
        """The whole trajectory, once the agent has returned it."""
        self.usage: Usage = NO_USAGE
        self.phases: dict[str, float] = {}
        self._began = time.perf_counter()
        self._calls: list[Timed] = []

    async def ask_model(self, params: Mapping[str, Any]) -> Response:
        """One turn of the model, never a stream. Raises the model errors of `rollgym.records`."""
        if "stream" in params or "stream_options" in params:
            params = {name: params[name] for name in params if not name.startswith("stream")}
        began = time.perf_counter()
        try:
            answer = await self._model.call(
                "/v1/responses",
                msgspec.json.encode(params),
                error=ModelUnavailableError,
                jar=self.model_jar,
                within=self._model_timeout,
            )
        finally:
            self.spent("model", began)
        try:
            response = Response.of(_OBJECT.decode(answer.body))
        except ValueError as error:
            raise ModelMalformedError(
                f"the answer of {self._model.name} is not a JSON object: {error}"
            ) from error
        if not isinstance(response.raw.get("output"), list):
            raise ModelMalformedError(f"the answer of {self._model.name} has no `output`")
        self.usage += response.usage
        return response

    async def call_tool(self, name: str, arguments: bytes) -> str:
        """Call a tool; returns the text for the model, also where the tool answered an error.

        Raises ToolError when the tool's server did not answer, and the server's error when it
        reports a failure of the rollout.
        """
        if name in RESERVED_NAMES or "/" in name:
            return error_answer(404, f"there is no tool {name!r}").text
        began = time.perf_counter()
        try:
            answer = await self.resources.call(
                f"/{name}",
                arguments,
                error=ToolError,
                jar=self.resources_jar,
                within=self._tool_timeout,
                any_status=True,
            )
        finally:
            self.spent("tools", began, name)
        return result_text(answer.body)

    def usage_object(self) -> dict[str, Any]:
        """The tokens of all turns, as the Responses API writes them."""
        usage = self.usage
        return {
            "input_tokens": usage.input_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.output_tokens,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
            "total_tokens": usage.input_tokens + usage.output_tokens,
        }

    def spans(self) -> list[WireSpan]:
        """The spans of the first calls, in the order in which they ended."""
        return wire_spans(self._calls, self._began)

    def spent(self, phase: str, began: float, label: str = "") -> None:
        """Add the seconds since the performance counter was `began`; parallel calls each count."""
        ended = time.perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + ended - began
        if len(self._calls) < MOST_SPANS:
            self._calls.append((phase, began, ended, label))


def wire_spans(calls: Sequence[Timed], began: float) -> list[WireSpan]:
    """Spans for the wire, counted from `began`. Labels are cut and safe in a header."""
    return [
        (
            phase,
            int((start - began) * _MICROSECONDS),
            int((end - start) * _MICROSECONDS),
            label and span_label(label),
        )
        for phase, start, end, label in calls
    ]


def encode_spans(spans: Sequence[WireSpan]) -> str:
    """The header for the spans: as many of the first ones as it can hold."""
    encoded = _ENCODER.encode(spans)
    while len(encoded) > LONGEST_HEADER:
        spans = spans[: len(spans) * 3 // 4]
        encoded = _ENCODER.encode(spans)
    return encoded.decode()


def span_label(name: str) -> str:
    """The label for a name: its start, in characters that a header can hold."""
    label = name[:LONGEST_LABEL]
    if label.isascii() and label.isprintable():
        return label
    ascii_only = label.encode("ascii", "replace").decode()
    return "".join(each if each.isprintable() else "?" for each in ascii_only)


def decode_spans(text: str | msgspec.Raw) -> tuple[Span, ...]:
    """The spans of a header. Raises msgspec.DecodeError."""
    return tuple(
        [
            Span(phase, start / _MICROSECONDS, length / _MICROSECONDS, label)
            for phase, start, length, label in _SPANS.decode(text)[:MOST_SPANS]
        ]
    )
