"""One episode of an agent: its model, its tools, its tokens and its times.

An agent's loop calls the model and the tools through `Episode`. It keeps the cookies of each
server, adds up tokens and the seconds of each phase, and records when the first calls happened.
The tools and the times are those of `episode_tools`.

*Tokens.* With `takes_tokens`, the tokens that a model server put on the items of a turn move to
`token_turns`, where each turn is stored once. A model server that continues from tokens gets those
of the turn before on its item again.

*Turns.* Each turn has its times, and the policy version that the model server says, in a header or
in its answer.

*Calls in texts.* A turn without a call whose text ends with one of a known tool makes that call,
which is counted (`rollgym.servers.text_calls`).
"""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec

from rollgym.records import (
    NO_USAGE,
    ModelMalformedError,
    ModelRole,
    ModelUnavailableError,
    ModelUse,
    ModelUses,
    Row,
    Usage,
)
from rollgym.records.decoding import JsonDecoder
from rollgym.records.token_json import TokenReader, as_json, decode_besides_tokens
from rollgym.records.tokens import TOKEN_FIELDS, TokenTurn, TurnKind
from rollgym.records.usage import to_microsecond
from rollgym.records.version import PolicyTurn, TurnVersion, merged_version
from rollgym.servers.client import ServerClient
from rollgym.servers.endpoints.times import CallTimes
from rollgym.servers.episode_tools import EpisodeTools, tool_names
from rollgym.servers.exchange import CookieJar
from rollgym.servers.responses import JsonObject, Response
from rollgym.servers.text_calls import find_text_call

_OBJECT = JsonDecoder(dict[str, Any])
CONTEXT_OVERFLOW = "context_overflow"
TAKES_TOKENS = "takes_token_ids"
"""On the item of a turn: the model server continues from the tokens of this item."""
_TAKEN = frozenset((*TOKEN_FIELDS, TAKES_TOKENS))
_OURS = ("stopped_by", "tool_errors", "tool_calls_rejected", "tool_calls_from_text")


class _EpisodeTurn(NamedTuple):
    """A turn: its times by the performance counter, its version, and its last item."""

    began: float
    ended: float
    version: TurnVersion
    item: JsonObject | None


class Episode(EpisodeTools):
    """The model, the tools and the session of one rollout, for an agent.

    `tool_timeout` and `model_timeout` bound each call. `cookies` are those of a session that the
    caller of the agent has already seeded. With `parallel` the calls of a turn run in parallel, and
    with `show_server_errors` the model reads the errors of a tool's server too. `takes_tokens`
    says whether the caller reads `token_turns`, not the tokens on the items.
    """

    row: Row | None = None
    """The row of the rollout; None for an agent whose caller seeds and verifies."""
    response: dict[str, Any] | None = None
    """The whole trajectory, once the agent has returned it."""
    usage: Usage = NO_USAGE
    stopped_by: str | None = None
    """Why the episode ended before the model did: `max_steps` or `context_overflow`."""
    tool_calls_from_text = 0

    def __init__(
        self,
        model: ServerClient,
        resources: ServerClient,
        *,
        tool_timeout: float,
        model_timeout: float,
        cookies: Mapping[str, str] | None = None,
        parallel: bool = False,
        show_server_errors: bool = False,
        takes_tokens: bool = False,
    ) -> None:
        super().__init__(
            resources,
            tool_timeout=tool_timeout,
            cookies=cookies,
            parallel=parallel,
            show_server_errors=show_server_errors,
        )
        self._model = model
        self._model_timeout = model_timeout
        self.model_jar = CookieJar()
        self.row_fields: dict[str, Any] = {}
        """Further fields for the verified row, or for what is kept of a rollout that failed."""
        self.models = ModelUses()
        self._asked: Mapping[str, Any] = {}
        self._last: Response | None = None
        self._takes_tokens = takes_tokens
        self._tokens = TokenReader(f"the answer of {model.name}")
        self._token_items: dict[int, JsonObject] = {}
        self._turns: list[_EpisodeTurn] = []
        self._continued: tuple[JsonObject, JsonObject] | None = None

    async def ask_model(
        self, params: Mapping[str, Any], *, read_text_calls: bool = True
    ) -> Response:
        """One turn of the model, never a stream. Raises the model errors of `rollgym.records`.

        With `read_text_calls`, a turn that ends with a call in its text makes that call.
        """
        if "stream" in params or "stream_options" in params:
            params = {name: params[name] for name in params if not name.startswith("stream")}
        self._asked = params
        if self._continued is not None:
            params = {**params, "input": _with_tokens(params.get("input"), *self._continued)}
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
            response = Response.of(self._decoded(answer.body))
        except ValueError as error:
            raise ModelMalformedError(
                f"the answer of {self._model.name} is not a JSON object: {error}"
            ) from error
        if not isinstance(response.raw.get("output"), list):
            raise ModelMalformedError(f"the answer of {self._model.name} has no `output`")
        usage, times = response.usage, CallTimes.of(answer.headers)
        self.usage += usage
        self.models.add(
            ModelUse.one(
                str(response.raw.get("model") or ""),
                ModelRole.POLICY,
                usage,
                seconds=time.perf_counter() - began,
                queued=times.queued,
                first_token=times.first_token,
            )
        )
        self._last = response
        if read_text_calls:
            self._read_text_call(response, params)
        if self._takes_tokens:
            version = merged_version(times.version, response.version)
            last = response.output[-1] if response.output else None
            self._turns.append(_EpisodeTurn(began, time.perf_counter(), version, last))
            self._take_tokens(response)
        return response

    async def list_models(self) -> bytes:
        """The models of the model server, as it lists them."""
        answer = await self._model.call(
            "/v1/models", b"", error=ModelUnavailableError, method="GET", within=self._model_timeout
        )
        return answer.body

    @property
    def last_tokens(self) -> Mapping[str, Any] | None:
        """The tokens of the last turn, where its model server continues from tokens.

        They are for a further request: the ids of the prompt may be JSON."""
        return self._continued[1] if self._continued else None

    @property
    def token_turns(self) -> list[TokenTurn]:
        """The tokens of all turns, each with the place of its last item in the trajectory."""
        if not self._token_items:
            return []
        places, items = self._places(), self._token_items
        return [
            msgspec.structs.replace(turn, item=places.get(id(items[number])))
            if number in items
            else turn
            for number, turn in enumerate(self._tokens.log.turns)
        ]

    @property
    def turns(self) -> list[PolicyTurn]:
        """All turns, each with the place of its last item in the trajectory.

        What passed between the caller's request and the beginning of the episode is unknown.
        """
        places, began = self._places(), self._began
        return [
            PolicyTurn(
                start=to_microsecond(turn.began - began),
                seconds=to_microsecond(turn.ended - turn.began),
                version=turn.version.version,
                parts=turn.version.parts,
                item=None if turn.item is None else places.get(id(turn.item)),
            )
            for turn in self._turns
        ]

    def _places(self) -> dict[int, int]:
        """The places of the items in the trajectory, by their identity."""
        whole = self.output if self.response is None else self.response.get("output") or ()
        return {id(item): place for place, item in enumerate(whole)}

    def _decoded(self, answer: bytes) -> JsonObject:
        """Raises ValueError."""
        if self._takes_tokens:
            return decode_besides_tokens(answer, _last_item, to_read=True)
        return _OBJECT.decode(answer)

    def _take_tokens(self, response: Response) -> None:
        """Move the tokens of a turn from its last item that has some to the log."""
        self._continued, found = None, False
        for item in reversed(response.output):
            if _TAKEN.isdisjoint(item):
                continue
            continues = item.pop(TAKES_TOKENS, False)
            fields = {name: item.pop(name) for name in TOKEN_FIELDS if name in item}
            number = len(self._turns) - 1
            if not found and (found := self._tokens.read(number, fields, _kind(response))):
                self._token_items[number] = item
                self._continued = (item, _for_request(fields)) if continues else None

    def _read_text_call(self, response: Response, params: Mapping[str, Any]) -> None:
        """Make a call of a turn that has none, if its text ends with one of a known tool."""
        last = response.output[-1] if response.output else {}
        text = _last_text(last)
        if "{" not in text:
            return
        known = tool_names(params.get("tools"))
        if not known or response.function_calls or params.get("tool_choice") == "none":
            return
        call = find_text_call(text, known)
        if call is None:
            return
        made: JsonObject = {
            "type": "function_call",
            "call_id": f"call_{uuid4().hex}",
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        self.tool_calls_from_text += 1
        if call.head or len(last["content"]) > 1:
            last["content"][-1]["text"] = call.head
            response.output.append(made)
            return
        kept = {name: last[name] for name in (*TOKEN_FIELDS, TAKES_TOKENS) if name in last}
        last.clear()
        last.update(made | kept)

    def finish(self) -> JsonObject:
        """The trajectory: the object of the last turn, with the output and usage of all turns."""
        last = self._last.raw if self._last else _unanswered(self._asked)
        whole = {**last, "output": self.output, "usage": self.usage_object()}
        if self.stopped_by == CONTEXT_OVERFLOW:
            # The reason for a reply that did not fit, among those that the Responses API has.
            whole["status"] = "incomplete"
            whole["incomplete_details"] = {"reason": "max_output_tokens"}
        return whole

    def annotate(self, response: JsonObject) -> JsonObject:
        """The response with the reason of an early end and the counts of errors in `metadata`."""
        given = response.get("metadata")
        numbers = (self.tool_errors, self.tool_calls_rejected, self.tool_calls_from_text)
        if not (given or self.stopped_by or any(numbers)):
            return response
        named = zip(_OURS, (self.stopped_by, *numbers), strict=True)
        kept = given.items() if isinstance(given, dict) else ()
        metadata = {name: value for name, value in kept if name not in _OURS}
        metadata |= {name: str(value) for name, value in named if value}
        return {**response, "metadata": metadata}

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


def _last_item(answer: JsonObject) -> object:
    """The item of an answer that may have its tokens."""
    output = answer.get("output")
    return output[-1] if isinstance(output, list) and output else None


def _last_text(item: JsonObject) -> str:
    """The text at the end of a message; "" for any other item."""
    content = item.get("content") if item.get("type") == "message" else None
    part = content[-1] if isinstance(content, list) and content else None
    if not isinstance(part, dict) or part.get("type") != "output_text":
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _kind(response: Response) -> TurnKind:
    kinds = [item.get("type") for item in response.output]
    return TurnKind("reasoning" in kinds, "function_call" in kinds)


def _for_request(fields: JsonObject) -> JsonObject:
    """The tokens of a turn with arrays that are still JSON for a further request."""
    return {
        name: as_json(given) if isinstance(given, bytes) else given
        for name, given in fields.items()
    }


def _with_tokens(items: object, item: JsonObject, fields: JsonObject) -> object:
    """The input of a turn, with the tokens of an earlier turn on its item."""
    if not isinstance(items, list):
        return items
    return [{**each, **fields} if each is item else each for each in items]


def _unanswered(params: Mapping[str, Any]) -> JsonObject:
    """The response of a model that never answered, with every field that the API requires."""
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "model": params.get("model") or "",
        "parallel_tool_calls": True,
        "tool_choice": params.get("tool_choice") or "auto",
        "tools": params.get("tools") or [],
    }
