"""The plug-in with the bundled model and real llama.cpp, in `make test-embedded` only."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from responses_api_models.embedded_model.app import EmbeddedModel, EmbeddedModelConfig
from rollgym.export.messages import conversation
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


def model(**settings: Any) -> EmbeddedModel:
    config = EmbeddedModelConfig(extra_body={"max_tokens": 60}, **settings)
    return EmbeddedModel("policy_model", config)


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[ServerClient]:
    async with reached(model(**settings)) as client:
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


def test_an_exported_conversation_renders_to_the_tokens_that_the_model_saw() -> None:
    """With llama.cpp's own rendering of the model's chat template, for the prompt of each turn."""

    async def episode() -> list[tuple[list[int], list[int]]]:
        server = model(return_token_id_information=True, context=2048, slots=1)
        async with reached(server) as client:
            task = [{"role": "developer", "content": "Use the tools."}, QUESTION]
            turns: list[Any] = []
            output: list[Any] = []
            for choice in ("required", "required", "none"):
                asked = {"input": task + output, "tools": TOOLS, "tool_choice": choice, "seed": 1}
                turns.append(await ask(client, **asked))
                output += turns[-1]["output"]
                for call in Response.of(turns[-1]).function_calls:
                    result = {"call_id": call.call_id, "output": '{"booked": "caf\u00e9"}'}
                    output.append({"type": "function_call_output", **result})
            params = {"input": task, "tools": TOOLS}
            response = {**turns[-1], "output": output}
            row = {"responses_create_params": params, "response": response}
            found = conversation(msgspec.json.encode(row))
            messages = found.prompt + found.completion
            replies = [n for n, each in enumerate(messages) if each["role"] == "assistant"]
            assert server._tokens is not None
            seen = [turn["output"][-1]["prompt_token_ids"] for turn in turns]
            rendered = [
                await server._tokens._rendered(
                    {"messages": messages[:number], "tools": found.tools}, None
                )
                for number in replies
            ]
            return [(ids, prompt) for (ids, _), prompt in zip(rendered, seen, strict=True)]

    for rendered, seen in asyncio.run(episode()):
        assert rendered == seen


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

    with pytest.raises(Exception, match="broken was not loaded from .*: llama.cpp says: .*GGUF"):
        asyncio.run(load())
