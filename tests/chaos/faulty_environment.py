"""An environment that goes wrong where its rows say so.

This file is copied into a test's folder as the `app.py` of a plug-in, so it stands on nothing but
`rollgym`. The task is to look up a secret with the one tool there is, and to say it.
"""

import asyncio
import math
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from rollgym.records import ToolError
from rollgym.servers import (
    Answer,
    Request,
    ResourcesServer,
    Response,
    TaskRow,
    ToolRejection,
    Verdict,
    tool,
)

LONGEST_HANG = 600.0
Place = Literal["seed", "tool", "verify", "model", "run"]


class Trouble(BaseModel):
    """What goes wrong, where, and in which of a rollout's calls there, over all its attempts.

    The first `after` calls are spared, and then `times` of them go wrong, or all where it is None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Place
    fault: str
    times: int | None = None
    after: int = 0

    def strikes(self, call: int) -> bool:
        """Whether it is in this call, counted from 1."""
        last = math.inf if self.times is None else self.after + self.times
        return self.after < call <= last


class FaultyTask(TaskRow):
    number: int
    troubles: tuple[Trouble, ...] = ()

    def fault(self, place: Place, call: int) -> str | None:
        """What goes wrong in a rollout's so many-th call of a place."""
        troubles = (each for each in self.troubles if each.at == place and each.strikes(call))
        return next((each.fault for each in troubles), None)


def secret_of(number: int) -> str:
    return f"secret {number}"


class FaultyEnvironment(ResourcesServer[FaultyTask, FaultyTask]):
    """Keeps its promises except where a row's troubles say otherwise."""

    _calls: ClassVar[Counter[tuple[Place, int]]] = Counter()

    async def seed_session(self, task: FaultyTask) -> FaultyTask:
        await _go_wrong(self._next_fault("seed", task))
        return task

    @tool
    async def look_up(self, state: FaultyTask, number: int) -> str:
        """Look up a secret.

        Args:
            number: Whose secret.
        """
        await _go_wrong(self._next_fault("tool", state))
        return secret_of(number)

    async def verify(self, task: FaultyTask, response: Response, state: FaultyTask) -> Verdict:
        fault = self._next_fault("verify", state)
        if fault in ODD_REWARDS:
            return Verdict(ODD_REWARDS[fault])
        if fault in ODD_ANSWERS:
            return Verdict(0.0, odd_answer=fault)
        await _go_wrong(fault)
        return Verdict(float(response.text == secret_of(task.number)))

    async def handle(self, request: Request, seconds: float = math.inf) -> Answer:
        """Also as a verifier that others wrote might answer, who do not know the contract well."""
        answer = await super().handle(request, seconds)
        for fault, (status, addition) in ODD_ANSWERS.items():
            if request.path == "/verify" and f'"odd_answer":"{fault}"' in answer.text:
                return Answer(status, request.body[:-1] + addition)
        return answer

    def _next_fault(self, place: Place, task: FaultyTask) -> str | None:
        self._calls[place, task.number] += 1
        return task.fault(place, self._calls[place, task.number])


ODD_REWARDS: dict[str | None, Any] = {
    "gives NaN": math.nan,
    "gives infinity": math.inf,
    "gives a text": "1.0",
}
ODD_ANSWERS = {
    "answers 500": (500, b"}"),
    "answers with a NaN": (200, b', "reward": NaN}'),
    "answers without a reward": (200, b"}"),
    "answers half an object": (200, b""),
}
"""By name: the status, and what comes in place of the closing brace of the row."""


async def _go_wrong(fault: str | None) -> None:
    match fault:
        case None:
            return
        case "hangs":
            await asyncio.sleep(LONGEST_HANG)
        case "raises":
            raise KeyError("the author's bug")
        case "raises a novel":
            raise ValueError("It was a dark and stormy night. " * 40_000)
        case "rejects":
            raise ToolRejection("not now")
        case "breaks":
            raise ToolError("the database behind the tool is away")
        case "dies once":
            _die_once()
        case _:
            raise AssertionError(f"nobody knows how to go wrong like this: {fault}")


def _die_once() -> None:
    """A file remembers it: what the process counts dies with it."""
    died = Path("died")
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
