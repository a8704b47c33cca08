"""A script in place of a language model, which solves the bundled examples well and badly.

Every answer follows from the model's seed, the rollout and the request. With probability `skill` a
rollout is solved well; otherwise it gets one of the mistakes that its solver can make. With less
than full skill the arguments of a call are garbled now and then; the model reads the error and
calls again.
"""

import asyncio
from typing import Annotated

from pydantic import Field

from responses_api_models.scripted_model.program_solver import ProgramSolver, UnknownTaskSolver
from responses_api_models.scripted_model.solver import (
    ScriptedRequest,
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
from responses_api_models.scripted_model.writing import MODEL, write_response
from rollgym.records import Row
from rollgym.servers import ModelServer, ServerConfig
from rollgym.servers.context import current_rollout
from rollgym.servers.exchange import json_answer
from rollgym.store import Setting

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
