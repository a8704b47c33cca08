"""One episode of an agent: its model, its tools, and what they cost.

An agent's loop asks the model and calls tools through this. It keeps the cookies of each server,
sums up tokens, counts the seconds spent by phase, and notes when its first calls were.
"""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from rollgym.records import (
    NO_USAGE,
    ModelMalformedError,
    ModelUnavailableError,
    ToolError,
    Usage,
)
from rollgym.servers.client import ServerClient
from rollgym.servers.cookies import CookieJar
from rollgym.servers.exchange import error_answer
from rollgym.servers.responses import Response
from rollgym.servers.spans import MOST_SPANS, Timed, WireSpan, wire_spans
from rollgym.servers.tools import RESERVED_NAMES, result_text

_OBJECT = msgspec.json.Decoder(dict[str, Any])


class Episode:
    """What an agent works with.

    `tool_timeout` and `model_timeout` bound each call. `cookies` are those of a session that
    somebody else began.
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
        """Whether the environment holds a session that can be given back unverified."""
        self.output: list[dict[str, Any]] = []
        """The trajectory so far, as items of the Responses API; the agent adds to it."""
        self.usage: Usage = NO_USAGE
        self.phases: dict[str, float] = {}
        self._began = time.perf_counter()
        self._calls: list[Timed] = []

    async def ask_model(self, params: Mapping[str, Any]) -> Response:
        """One turn of the model. Raises the model errors of `rollgym.records`."""
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
                f"{self._model.name} answered no JSON object: {error}"
            ) from error
        if not isinstance(response.raw.get("output"), list):
            raise ModelMalformedError(f"{self._model.name} answered without an `output`")
        self.usage += response.usage
        return response

    async def call_tool(self, name: str, arguments: bytes) -> str:
        """What the model gets to read, also where the tool answered with an error.

        Raises ToolError when the tool's server gave no answer, and its own error when it reports
        that the rollout cannot go on.
        """
        if name in RESERVED_NAMES or "/" in name:
            return error_answer(404, f"there is no tool {name!r}").text
        began = time.perf_counter()
        try:
            answer = await self.resources.exchange(
                f"/{name}",
                arguments,
                error=ToolError,
                jar=self.resources_jar,
                within=self._tool_timeout,
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
        """When the first calls were, in the order in which they ended."""
        return wire_spans(self._calls, self._began)

    def spent(self, phase: str, began: float, label: str = "") -> None:
        """Count the seconds since the performance counter was `began`, of parallel calls each."""
        ended = time.perf_counter()
        self.phases[phase] = self.phases.get(phase, 0.0) + ended - began
        if len(self._calls) < MOST_SPANS:
            self._calls.append((phase, began, ended, label))
