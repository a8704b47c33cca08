"""A script in place of a language model, which solves the bundled examples well and badly.

Every answer follows from the model's seed, the rollout and the request. With probability `skill` a
rollout is solved well; otherwise it gets one of the mistakes that its solver can make. With less
than full skill the arguments of a call are garbled now and then; the model reads the error and
calls again.
"""

import asyncio
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any

import msgspec
from pydantic import Field

from responses_api_models.scripted_model.program_solver import ProgramSolver, UnknownTaskSolver
from responses_api_models.scripted_model.solver import (
    ScriptedRequest,
    ScriptedTurn,
    SeededChoices,
    Solver,
    read_request,
)
from responses_api_models.scripted_model.text_solvers import ChoiceSolver, MathSolver, PuzzleSolver
from responses_api_models.scripted_model.tool_solvers import (
    CounterSolver,
    DocumentSolver,
    WeatherSolver,
)
from rollgym.records import Row
from rollgym.servers import ModelServer, ServerConfig
from rollgym.servers.context import current_rollout
from rollgym.servers.exchange import json_answer
from rollgym.store import Setting

MODEL = "scripted_model (no language model)"
_DEFAULTS: dict[str, Any] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
_ECHOED = (*_DEFAULTS, "instructions", "max_output_tokens", "metadata", "temperature", "top_p")
SOLVERS: tuple[Solver, ...] = (
    DocumentSolver(),
    WeatherSolver(),
    CounterSolver(),
    ChoiceSolver(),
    ProgramSolver(),
    PuzzleSolver(),
    MathSolver(),
    UnknownTaskSolver(),
)
"""The first one that recognizes a task solves it; the last one recognizes every task."""


GARBLING = 0.4


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


class ScriptedModelConfig(ServerConfig):
    """`skill` is the share of rollouts that are solved well, `latency` the seconds of an answer."""

    seed: int = 0
    skill: float = Field(default=0.7, ge=0, le=1)
    latency: Annotated[float, Setting.TIMING] = Field(default=0.0, ge=0)


class ScriptedModel(ModelServer):
    """Chooses a solver by the tools and the text of the request."""

    config: ScriptedModelConfig

    async def responses(self, params: Row) -> bytes:
        if self.config.latency:
            await asyncio.sleep(self.config.latency)
        request = read_request(params.raw)
        choices = SeededChoices(
            self.config.seed, current_rollout(), request.variation, request.task
        )
        solver = next(each for each in SOLVERS if each.recognizes(request))
        mistake = None
        if not choices.happens(self.config.skill, "plays well"):
            mistake = choices.choose(solver.mistakes, "mistake")
        turn = solver.next_turn(request, mistake, choices)
        garbled = self._garbles(request, choices)
        return write_response(params, turn, choices, request.words, garbled=garbled)

    async def models(self) -> bytes:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "rollgym"}
        return json_answer({"object": "list", "data": [model]}).body

    def _garbles(self, request: ScriptedRequest, choices: SeededChoices) -> bool:
        """Whether to garble the next call: never twice in a row, so that it always recovers."""
        exchanges = request.exchanges
        if exchanges and exchanges[-1].failed:
            return False
        return choices.happens(GARBLING * (1 - self.config.skill), "garbles", len(exchanges))
