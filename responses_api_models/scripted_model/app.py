"""No language model: a script that plays the bundled examples, well and badly.

Every answer follows from the model's seed, the rollout it is for, and the request. With probability
`skill` a rollout is played well; otherwise it gets one of the mistakes that its player can make. A
player that is not perfect also garbles the arguments of a call now and then, sees the error, and
calls again.
"""

import asyncio
from typing import Annotated

from pydantic import Field

from responses_api_models.scripted_model.cast import choose_player
from responses_api_models.scripted_model.conversation import Conversation, read_conversation
from responses_api_models.scripted_model.luck import Luck
from responses_api_models.scripted_model.writing import MODEL, Manner, Style, write_response
from rollgym.records import Row
from rollgym.servers import ModelServer, ServerConfig
from rollgym.servers.context import current_rollout
from rollgym.servers.exchange import json_answer
from rollgym.store import Setting

GARBLING = 0.4


class ScriptedModelConfig(ServerConfig):
    """`skill` is the share of rollouts played well, `latency` the seconds that an answer takes."""

    seed: int = 0
    skill: float = Field(default=0.7, ge=0, le=1)
    latency: Annotated[float, Setting.TIMING] = Field(default=0.0, ge=0)


class ScriptedModel(ModelServer):
    """Chooses a player by the tools and the words of the request."""

    config: ScriptedModelConfig

    async def responses(self, params: Row) -> bytes:
        if self.config.latency:
            await asyncio.sleep(self.config.latency)
        conversation = read_conversation(params.raw)
        luck = Luck(self.config.seed, current_rollout(), conversation.variation, conversation.task)
        player = choose_player(conversation)
        mistake = None
        if not luck.happens(self.config.skill, "plays well"):
            mistake = luck.choose(player.mistakes, "mistake")
        turn = player.play(conversation, mistake, luck)
        style = Style(luck.choose(list(Manner), "manner"), self._garbles(conversation, luck))
        return write_response(params, turn, style, luck, conversation.words)

    async def models(self) -> bytes:
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "rollgym"}
        return json_answer({"object": "list", "data": [model]}).body

    def _garbles(self, conversation: Conversation, luck: Luck) -> bool:
        """Never twice in a row, so that it always recovers."""
        exchanges = conversation.exchanges
        if exchanges and exchanges[-1].failed:
            return False
        return luck.happens(GARBLING * (1 - self.config.skill), "garbles", len(exchanges))
