"""Rollouts as trajectories of ATIF, the Agent Trajectory Interchange Format of Harbor.

A trajectory is one JSON document. Each message of the system and of a user is a step; so is each
turn of the agent, with its calls and what they returned. Turns of an assistant in the prompt are
marked as copied context, because the policy did not make them. ATIF has no reward: it is in `extra`
of the document, beside the number of the task and of the repeat.

`rollgym import` reads such documents (`imported.py`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from rollgym.export.source import ExportedConversation, RolloutPosition
from rollgym.records.decoding import JsonDecoder
from rollgym.records.packing import unpack_ids, unpack_numbers
from rollgym.records.tokens import TokenTurn
from rollgym.records.version import PolicyTurn
from rollgym.rollouts.rows import ROLLOUT_INDEX, TASK_INDEX, TURNS
from rollgym.rollouts.token_rows import rollout_tokens
from rollgym.servers.responses import JsonObject

SCHEMA_VERSION = "ATIF-v1.7"
COPIED = "is_copied_context"
POLICY_VERSION, POLICY_VERSIONS = "policy_version", "policy_versions"
_SOURCES = {"system": "system", "developer": "system", "user": "user"}
_DATA = "data:"


class _Agent(msgspec.Struct):
    name: str | None = None


class _Usage(msgspec.Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Response(msgspec.Struct):
    model: str | None = None
    usage: _Usage | None = None


class _Row(msgspec.Struct):
    agent: _Agent = msgspec.field(default_factory=_Agent, name="agent_ref")
    response: Any = None
    turns: tuple[PolicyTurn, ...] | None = msgspec.field(default=None, name=TURNS)


_ROW = JsonDecoder(_Row)


class TurnTokens(NamedTuple):
    """The whole prompt of a turn, and what was sampled."""

    prompt: list[int]
    sampled: list[int]
    logprobs: list[float]

    @property
    def metrics(self) -> JsonObject:
        found: JsonObject = {
            "prompt_tokens": len(self.prompt),
            "completion_tokens": len(self.sampled),
            "prompt_token_ids": self.prompt,
            "completion_token_ids": self.sampled,
        }
        if self.logprobs:
            found["logprobs"] = self.logprobs
        return found


def trajectory(
    row: bytes, position: RolloutPosition, conversation: ExportedConversation
) -> JsonObject:
    """The document of a rollout. Raises TokenError."""
    read = _ROW.decode(row)
    response = _response(read.response)
    steps = [*_steps(conversation.prompt, copied=True), *_steps(conversation.completion)]
    sampled = [step for step in steps if step["source"] == "agent" and COPIED not in step]
    stored = rollout_tokens(row)
    tokens = main_tokens(stored.turns)
    if len(tokens) == len(sampled):
        for step, turn in zip(sampled, tokens, strict=True):
            step["metrics"] = turn.metrics
    versions = _main_versions(read.turns or (), stored.turns)
    if len(versions) == len(sampled):
        for step, version in zip(sampled, versions, strict=True):
            if version:
                step.setdefault("metrics", {})["extra"] = version
    agent: JsonObject = {"name": read.agent.name or "unknown", "version": "unknown"}
    if response.model:
        agent["model_name"] = response.model
    if conversation.tools:
        agent["tool_definitions"] = conversation.tools
    totals: JsonObject = {"total_steps": len(steps)}
    if response.usage is not None:
        totals["total_prompt_tokens"] = response.usage.input_tokens
        totals["total_completion_tokens"] = response.usage.output_tokens
    return {
        "schema_version": SCHEMA_VERSION,
        "trajectory_id": f"{position.task}-{position.repeat}",
        "agent": agent,
        "steps": [{"step_id": number, **step} for number, step in enumerate(steps, start=1)],
        "final_metrics": totals,
        "extra": {
            "reward": position.reward,
            "success": position.success,
            TASK_INDEX: position.task,
            ROLLOUT_INDEX: position.repeat,
        },
    }


def main_tokens(turns: Sequence[TokenTurn]) -> list[TurnTokens]:
    """The tokens of the main conversation's turns; [] where those of a turn are unusable."""
    whole: dict[int, list[int]] = {}
    found = []
    for number, turn in enumerate(turns):
        before = [] if turn.after is None else whole[turn.after][: turn.keep]
        prompt, sampled = before + unpack_ids(turn.prompt), unpack_ids(turn.sampled)
        whole[number] = prompt + sampled
        if turn.item is not None:
            if turn.problem or not sampled:
                return []
            found.append(TurnTokens(prompt, sampled, unpack_numbers(turn.logprobs)))
    return found


def _main_versions(turns: Sequence[PolicyTurn], tokens: Sequence[TokenTurn]) -> list[JsonObject]:
    """The policy versions of the main conversation's turns, as fields of a step.

    Rows of earlier versions of rollgym have them in the tokens.
    """
    if turns:
        main = [turn for turn in turns if turn.item is not None]
        return [
            ({POLICY_VERSION: turn.version} if turn.version else {})
            | ({POLICY_VERSIONS: turn.parts} if turn.parts else {})
            for turn in main
        ]
    found, version = list[JsonObject](), ""
    for turn in tokens:
        version = turn.version or version
        if turn.item is not None:
            found.append({POLICY_VERSION: version} if version else {})
    return found


def _response(given: object) -> _Response:
    try:
        return msgspec.convert(given, _Response)
    except msgspec.ValidationError:  # a transcript in place of a response, or usage of another kind
        return _Response()


def _steps(messages: Sequence[JsonObject], *, copied: bool = False) -> Iterator[JsonObject]:
    """The steps of messages. What a tool returned is part of the step with the call."""
    step: JsonObject = {}
    for message in messages:
        if message["role"] == "tool" and step.get("source") == "agent":
            results = step.setdefault("observation", {"results": []})["results"]
            call, content = message.get("tool_call_id"), _content(message.get("content"))
            known = {each["tool_call_id"] for each in step.get("tool_calls", ())}
            results.append({"source_call_id": call if call in known else None, "content": content})
            continue
        if step:
            yield step
        step = _step(message, copied=copied)
    if step:
        yield step


def _step(message: JsonObject, *, copied: bool) -> JsonObject:
    source = _SOURCES.get(message["role"], "agent")
    step: JsonObject = {"source": source, "message": _content(message.get("content"))}
    if source != "agent":
        return step
    if reasoning := message.get("reasoning_content") or message.get("reasoning"):
        step["reasoning_content"] = reasoning
    if calls := message.get("tool_calls"):
        step["tool_calls"] = [
            {
                "tool_call_id": call["id"],
                "function_name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
            for call in calls
        ]
    if copied:
        step[COPIED] = True
    elif message.get("refusal"):
        step["extra"] = {"refusal": message["refusal"]}
    return step


def _content(content: Any) -> Any:
    """A text, or parts of text and images, as ATIF has them."""
    return [*map(_part, content)] if isinstance(content, list) else content or ""


def _part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}}:
            kind = url[len(_DATA) :].split(";", 1)[0] if url.startswith(_DATA) else "image/png"
            return {"type": "image", "source": {"media_type": kind, "path": url}}
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case _:
            return {"type": "text", "text": msgspec.json.encode(part).decode()}
