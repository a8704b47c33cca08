"""Writes turns as Responses objects."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import msgspec

from responses_api_models.scripted_model.solver import ScriptedTurn, SeededChoices
from rollgym.records import Row

MODEL = "scripted_model (no language model)"
_DEFAULTS: dict[str, Any] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
_ECHOED = (*_DEFAULTS, "instructions", "max_output_tokens", "metadata", "temperature", "top_p")


class Manner(Enum):
    """Where the thought before calls goes: into a reasoning item, a message, or nowhere."""

    THINKS = "thinks"
    TALKS = "talks"
    ACTS = "acts"


def write_response(
    params: Row, turn: ScriptedTurn, choices: SeededChoices, words: int, *, garbled: bool
) -> bytes:
    """Write the Responses object of a turn. `words` is the length of the request.

    With `garbled` the arguments of the first call are not JSON.

    It contains no time, so equal turns are equal bytes. Tokens are counted as words.
    """
    manner = choices.choose(list(Manner), "manner")
    reasoning = turn.thought if manner is Manner.THINKS else ""
    text = turn.thought if turn.calls and manner is Manner.TALKS else turn.text
    arguments = [msgspec.json.encode(call.arguments).decode() for call in turn.calls]
    if garbled and arguments:
        arguments[0] = arguments[0].removesuffix("}")
    thought, written = _count(reasoning), _count(reasoning, text, *arguments)
    return msgspec.json.encode(
        {
            "id": f"resp_{choices.identifier(words)}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": MODEL,
            **_DEFAULTS,
            **{name: params.fields[name] for name in _ECHOED if name in params.fields},
            "output": [
                *_reasoning(reasoning, choices.identifier(words, "reasoning")),
                *_message(text, choices.identifier(words, "message")),
                *_calls(turn, arguments, choices, words),
            ],
            "usage": {
                "input_tokens": words,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": written,
                "output_tokens_details": {"reasoning_tokens": thought},
                "total_tokens": words + written,
            },
        }
    )


def _reasoning(text: str, identifier: str) -> Iterator[dict[str, Any]]:
    if text:
        summary = [{"type": "summary_text", "text": text}]
        yield {"type": "reasoning", "id": f"rs_{identifier}", "summary": summary}


def _message(text: str, identifier: str) -> Iterator[dict[str, Any]]:
    if text:
        yield {
            "type": "message",
            "id": f"msg_{identifier}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }


def _calls(
    turn: ScriptedTurn, arguments: list[str], choices: SeededChoices, words: int
) -> Iterator[dict[str, Any]]:
    for number, (call, written) in enumerate(zip(turn.calls, arguments, strict=True)):
        identifier = choices.identifier(words, "call", number)
        yield {
            "type": "function_call",
            "id": f"fc_{identifier}",
            "call_id": f"call_{identifier}",
            "name": call.name,
            "arguments": written,
            "status": "completed",
        }


def _count(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)
