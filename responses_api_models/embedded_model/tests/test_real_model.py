"""The plug-in with the bundled model and real llama.cpp, in `make test-embedded` only."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from responses_api_models.embedded_model.app import EmbeddedModel, EmbeddedModelConfig
from rollgym.records import ModelContextError
from rollgym.servers import Response, ServerClient
from rollgym.servers.testing import reached

pytestmark = pytest.mark.embedded
TOOLS = [
    {
        "type": "function",
        "name": "book",
        "description": "Book a table.",
        "parameters": {
            "type": "object",
            "properties": {
                "restaurant": {"type": "string"},
                "people": {"type": "integer"},
                "area": {"enum": ["inside", "garden"]},
                "wishes": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["restaurant", "people", "area"],
            "additionalProperties": False,
        },
    },
    {"type": "function", "name": "call_taxi", "parameters": {"type": "object"}},
]
QUESTION = {"role": "user", "content": "A table for four in the garden of Luigi, please."}


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[ServerClient]:
    config = EmbeddedModelConfig(extra_body={"max_tokens": 60}, **settings)
    async with reached(EmbeddedModel("policy_model", config)) as client:
        yield client


async def ask(client: ServerClient, **params: Any) -> Any:
    answer = await client.post("/v1/responses", params)
    assert answer.status == 200, answer.text
    return msgspec.json.decode(answer.body)


def test_calls_follow_the_schema_and_each_turn_continues_the_tokens_of_the_last() -> None:
    async def episode() -> list[Any]:
        async with serving(continue_from_tokens=True, context=2048, slots=2) as client:
            history: list[Any] = [QUESTION]
            turns = []
            for seed in range(3):
                turn = await ask(
                    client, input=history, tools=TOOLS, tool_choice="required", seed=seed
                )
                turns.append(turn)
                history += turn["output"]
                for call in Response.of(turn).function_calls:
                    result = {"call_id": call.call_id, "output": '{"booked": false}'}
                    history.append({"type": "function_call_output", **result})
            return turns

    turns = asyncio.run(episode())
    before: list[int] = []
    for turn in turns:
        (item,) = turn["output"]
        if item["name"] == "book":
            arguments = json.loads(item["arguments"])
            assert list(arguments)[:3] == ["restaurant", "people", "area"]
            assert isinstance(arguments["people"], int)
            assert arguments["area"] in {"inside", "garden"}
        sampled, log_probs = item["generation_token_ids"], item["generation_log_probs"]
        assert len(sampled) == len(log_probs) == turn["usage"]["output_tokens"]
        assert all(each <= 0 for each in log_probs)
        assert len(item["prompt_token_ids"]) == turn["usage"]["input_tokens"]
        assert item["prompt_token_ids"][: len(before)] == before
        before = item["prompt_token_ids"] + sampled


def test_the_same_seed_and_prompt_give_the_same_answer() -> None:
    async def answers() -> list[str]:
        async with serving(slots=1) as client:
            params = {"input": "Name a river.", "seed": 5, "temperature": 1.0}
            await ask(client, **params)  # from here on the prompt is in the cache
            return [Response.of(await ask(client, **params)).text for _ in range(2)]

    first, second = asyncio.run(answers())
    assert first == second != ""


def test_a_conversation_that_is_too_long_and_a_file_that_is_no_model_are_named(
    tmp_path: Any,
) -> None:
    async def too_long() -> None:
        async with serving(context=256, slots=1) as client:
            with pytest.raises(ModelContextError, match="exceeds the available context"):
                await ask(client, input="word " * 400)

    asyncio.run(too_long())
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(1000))

    async def load() -> None:
        async with serving(model_path=broken):
            pass

    with pytest.raises(Exception, match="broken was not loaded"):
        asyncio.run(load())
