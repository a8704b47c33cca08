"""What an export has of a rollout is what vLLM was sent: the same messages and the same tools."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from responses_api_models.vllm_model.tests.fake_vllm import FakeVllm, JsonObject
from responses_api_models.vllm_model.tests.test_vllm_model import CALL, WEATHER, ask, serving
from rollgym.export.messages import conversation
from rollgym.servers import Response

IMAGE = "data:image/png;base64,iVBORw0KGgo="
PARAMS = {
    "instructions": "Be brief.",
    "input": [
        {"role": "developer", "content": "Use the tool."},
        {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
    ],
    "tools": [{**WEATHER, "description": "The weather.", "strict": True}],
    "metadata": {"chat_template_kwargs": '{"date": "today"}'},
}
BROKEN = {**CALL, "id": "call_2", "function": {"name": "get_weather", "arguments": '{"city":'}}
REPLIES: list[JsonObject] = [
    {"content": "Looking.", "reasoning": "Two cities.", "tool_calls": [CALL, BROKEN]},
    {"content": "<think>Hm.</think>Once more.", "tool_calls": [CALL]},
    {"content": "Sunny.", "reasoning": "So."},
]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"replace_developer_role_with_system": False, "chat_template_kwargs": {"thinking": True}},
        {"uses_interleaved_reasoning": False},
        {"uses_reasoning_parser": False},
    ],
)
def test_an_exported_conversation_is_the_one_that_vllm_was_sent(settings: dict[str, Any]) -> None:
    vllm = FakeVllm(*REPLIES)

    async def episode() -> tuple[JsonObject, list[JsonObject]]:
        async with serving(vllm, **settings) as client:
            output: list[JsonObject] = []
            while True:
                response = await ask(client, **{**PARAMS, "input": [*PARAMS["input"], *output]})
                output += response["output"]
                calls = Response.of(response).function_calls
                if not calls:
                    return response, output
                for call in calls:
                    seen = [{"type": "input_image", "image_url": IMAGE}]
                    result = {"call_id": call.call_id, "output": seen}
                    output.append({"type": "function_call_output", **result})

    response, output = asyncio.run(episode())
    row = {"responses_create_params": PARAMS, "response": {**response, "output": output}}
    exported = conversation(msgspec.json.encode(row))
    sent = vllm.requests[-1]
    reply = exported.completion[-1]
    assert (exported.prompt + exported.completion)[:-1] == [
        _with_objects(message) for message in sent["messages"]
    ]
    assert exported.tools == sent["tools"]
    assert exported.chat_template_kwargs == sent["chat_template_kwargs"]
    written: tuple[str, str | None] = ("Sunny.", "So.")
    if settings.get("uses_reasoning_parser") is False:
        written = ("<think>So.</think>Sunny.", None)
    assert (reply["content"], reply.get("reasoning")) == written


def _with_objects(message: JsonObject) -> JsonObject:
    """A message that was sent, with the arguments of its calls as a chat template gets them."""
    for call in message.get("tool_calls", ()):
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return message
