"""The language model of the tutorial: the scripted one, which also notes what it is asked.

    python -m tests.e2e.tutorial_model --port 0

It is reached through the OpenAI Responses API like any model. `POST /notes` gives what came since
it was asked for the last time: the requests, and how many were answered at the same time.
"""

import asyncio
import json
import urllib.request
from typing import Any

import msgspec

from responses_api_models.scripted_model.app import ScriptedModel, ScriptedModelConfig
from rollgym.records import Row
from rollgym.servers.exchange import Answer, Request, json_answer
from rollgym.servers.http_server import listening
from tests.counterparts.life import begin, parser
from tests.e2e.command import PATIENCE

MODEL_NAME = "tutorial-model"
LATENCY = 0.02
"""Long enough that rollouts in parallel are seen in parallel."""


class Notes(msgspec.Struct):
    """What a model was asked: the requests in their order, and the most it had at once."""

    requests: list[dict[str, Any]]
    at_once: int

    @property
    def conversations(self) -> int:
        """How many began; every other request goes on with one."""
        return sum(len(request["input"]) == 1 for request in self.requests)

    def values(self, parameter: str) -> set[Any]:
        """All that the requests said of a parameter; None where one said nothing."""
        return {request.get(parameter) for request in self.requests}


class NotingModel(ScriptedModel):
    """Remembers its requests until it is asked for them."""

    def __init__(self, name: str, config: ScriptedModelConfig) -> None:
        super().__init__(name, config)
        self._notes = Notes([], 0)
        self._in_flight = 0
        self.route("POST", "/notes", self._tell)

    async def responses(self, params: Row) -> bytes:
        notes = self._notes
        notes.requests.append(msgspec.json.decode(params.raw))
        self._in_flight += 1
        notes.at_once = max(notes.at_once, self._in_flight)
        try:
            return await super().responses(params)
        finally:
            self._in_flight -= 1

    async def models(self) -> bytes:
        return json_answer({"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]}).body

    async def _tell(self, _: Request) -> Answer:
        told, self._notes = self._notes, Notes([], 0)
        return json_answer(told)


def notes_of(url: str) -> Notes:
    """What the model at this URL was asked since the last time."""
    request = urllib.request.Request(f"{url}/notes", method="POST")
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return msgspec.convert(json.loads(answer.read()), Notes)


async def _serve(port: int, *, end_with_stdin: bool) -> None:
    model = NotingModel("tutorial_model", ScriptedModelConfig(latency=LATENCY))
    async with listening(model, port=port) as taken:
        begin(taken, end_with_stdin=end_with_stdin)
        await asyncio.Event().wait()


if __name__ == "__main__":
    chosen = parser(__doc__).parse_args()
    asyncio.run(_serve(chosen.port, end_with_stdin=chosen.end_with_stdin))
