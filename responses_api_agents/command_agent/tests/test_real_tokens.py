"""The tokens of an agent on real llama.cpp, in `make test-embedded` only."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from responses_api_agents.command_agent.tests.stage import Json, on_stage
from responses_api_models.embedded_model.app import EmbeddedModel, EmbeddedModelConfig
from rollgym.records.branches import branches_of
from rollgym.records.tokens import TokenTurn
from rollgym.servers.context import working_for

pytestmark = pytest.mark.embedded
PROGRAM = """
    tools = [{"type": "function", "function": {
        "name": "book",
        "description": "Book an amount.",
        "parameters": {
            "type": "object",
            "properties": {"amount": {"type": "integer"}},
            "required": ["amount"],
        },
    }}]
    messages = [user("Book 5 for me.")]
    for _ in range(3):
        said = chat(*messages, tools=tools, max_tokens=40, temperature=0)
        messages.append(said)
        for made in said.get("tool_calls") or ():
            result = {"role": "tool", "tool_call_id": made["id"], "content": "booked"}
            messages.append(result)
        if not said.get("tool_calls"):
            messages.append(user("Thank you. Say goodbye."))
    """


@pytest.mark.parametrize("setting", ["return_token_id_information", "continue_from_tokens"])
def test_the_tokens_of_an_unmodified_agent_are_those_of_the_model(
    tmp_path: Path, setting: str
) -> None:
    async def scene() -> Json:
        settings: Json = {"context": 2048, "slots": 1, setting: True}
        model = EmbeddedModel("policy_model", EmbeddedModelConfig(**settings))
        async with on_stage(tmp_path, PROGRAM, model=model) as stage:
            with working_for("task/0"):  # as a collection, which stores each turn once
                return await stage.run()

    row = asyncio.run(scene())
    turns = msgspec.convert(row["rollgym_tokens"], list[TokenTurn])
    assert len(turns) == row["rollgym_calls"]["answered"] == 3
    assert all(turn.item is not None and not turn.problem for turn in turns)
    branches = branches_of(turns)
    sampled = sum(sum(branch.loss_mask) for branch in branches)
    assert sampled == row["response"]["usage"]["output_tokens"]
    assert all(branch.logprobs is not None for branch in branches)
    if setting == "continue_from_tokens":  # the agent knows no tokens, the gateway does
        assert len(branches) == 1
