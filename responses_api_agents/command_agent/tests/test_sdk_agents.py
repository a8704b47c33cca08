"""Agents on the official packages of OpenAI and Anthropic: not a line of ours is in them."""

import asyncio
from pathlib import Path

import pytest

from responses_api_agents.command_agent.tests.stage import Json, call, on_stage, say

PNG = "iVBORw0KGgo="
OPENAI_AGENT = """
import sys
import openai

client = openai.OpenAI(max_retries=0)
assert [model.id for model in client.models.list()] == ["counting"]
parameters = {"type": "object", "properties": {"amount": {"type": "integer"}}}
function = {"name": "book", "description": "Book", "parameters": parameters}
tools = [{"type": "function", "function": function}]
messages = [{"role": "user", "content": sys.stdin.read()}]

answer = client.chat.completions.create(model="gpt-x", messages=messages, tools=tools)
made = answer.choices[0].message
assert answer.choices[0].finish_reason == "tool_calls", answer
messages += [made, {"role": "tool", "tool_call_id": made.tool_calls[0].id, "content": "booked"}]
with client.chat.completions.stream(model="gpt-x", messages=messages, tools=tools) as stream:
    said = stream.get_final_completion().choices[0].message.content
assert said == "Booked.", said
usage = None
asked = {"stream": True, "stream_options": {"include_usage": True}}
for chunk in client.chat.completions.create(model="gpt-x", messages=messages, **asked):
    usage = chunk.usage or usage
assert usage.total_tokens == 13, usage

response = client.responses.create(model="gpt-x", input="Again", instructions="Be short.")
assert response.output_text == "to Again", response
with client.responses.stream(
    model="gpt-x", input="More", instructions="Be short.", previous_response_id=response.id
) as events:
    final = events.get_final_response()
assert final.output_text == "to More", final
try:
    client.chat.completions.create(model="gpt-x", messages=messages, n=2)
except openai.BadRequestError as error:
    assert "several requests" in str(error), error
else:
    sys.exit("two choices were promised")
try:
    openai.OpenAI(api_key="sk-other", max_retries=0).responses.create(model="x", input="Hello")
except openai.AuthenticationError:
    pass
else:
    sys.exit("any key opens the session")
"""
ANTHROPIC_AGENT = f'''
import sys
import anthropic

client = anthropic.Anthropic(max_retries=0)
assert [model.id for model in client.models.list()] == ["counting"]
parameters = {{"type": "object", "properties": {{"amount": {{"type": "integer"}}}}}}
settings = {{
    "model": "claude-x",
    "max_tokens": 100,
    "system": [{{"type": "text", "text": "You book."}}],
    "tools": [{{"name": "book", "description": "Book", "input_schema": parameters}}],
}}
image = {{"type": "base64", "media_type": "image/png", "data": "{PNG}"}}
asked = [{{"type": "text", "text": sys.stdin.read()}}, {{"type": "image", "source": image}}]
messages = [{{"role": "user", "content": asked}}]

thinking = {{"type": "enabled", "budget_tokens": 1024}}
settings["extra_body"] = {{"top_k": 5}}
answer = client.messages.create(messages=messages, thinking=thinking, **settings)
assert answer.stop_reason == "tool_use", answer
thought, text, made = answer.content
assert (thought.thinking, text.text) == ("Hm", "I book."), answer
assert made.input == {{"amount": 5}}, answer
assert answer.usage.input_tokens == 10, answer
booked = [{{"type": "text", "text": "booked"}}]
result = {{"type": "tool_result", "tool_use_id": made.id, "content": booked}}
messages.append({{"role": "assistant", "content": answer.content}})
messages.append({{"role": "user", "content": [result]}})
with client.messages.stream(messages=messages, stop_sequences=["END"], **settings) as stream:
    assert "".join(stream.text_stream) == "Booked.", stream
    final = stream.get_final_message()
assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", 3), final

with client.messages.stream(messages=messages[:1], **settings) as stream:
    assert stream.get_final_message().content[2].input == {{"amount": 5}}
try:
    client.messages.count_tokens(model="claude-x", messages=messages)
except anthropic.NotFoundError as error:
    assert "does not count tokens" in error.message, error
else:
    sys.exit("tokens were counted")
try:
    tool = {{"type": "web_search_20250305", "name": "web_search"}}
    client.messages.create(model="claude-x", max_tokens=9, messages=messages, tools=[tool])
except anthropic.BadRequestError as error:
    assert "web_search" in error.message, error
else:
    sys.exit("a tool of Anthropic was promised")
'''


def reply(request: Json) -> list[Json]:
    """Books at first, then says that it did; without tools it repeats the question."""
    if isinstance(request["input"], str):
        return [say(f"to {request['input']}")]
    last = request["input"][-1]
    if last.get("type") == "function_call_output":
        return [say("Booked.")]
    if not request.get("tools"):
        return [say(f"to {last['content']}")]
    thought = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]}
    return [thought, say("I book."), call("book", '{"amount":  5}')]


def test_every_call_of_an_agent_on_the_openai_package_is_in_its_rollout(tmp_path: Path) -> None:
    pytest.importorskip("openai", reason="install rollgym[dev]")

    async def scene() -> None:
        async with on_stage(tmp_path, OPENAI_AGENT, reply, client="") as stage:
            calls = (await stage.run())["rollgym_calls"]
            assert len(stage.model.requests) == calls["answered"] == 5
            assert calls["made"] == 6
            assert calls["failed"] == {"model_request": 1}
            assert calls["dialects"] == {"chat": 4, "responses": 2}
            assert calls["streamed"] == 3
            # The third call asks the same as the second; the last two are another conversation.
            turns = [each["turns"] for each in calls["conversations"]]
            assert sorted(turns) == [[0, 1], [2], [3, 4]]

    asyncio.run(scene())


def test_every_call_of_an_agent_on_the_anthropic_package_is_in_its_rollout(tmp_path: Path) -> None:
    pytest.importorskip("anthropic", reason="install rollgym[dev]")

    async def scene() -> None:
        async with on_stage(tmp_path, ANTHROPIC_AGENT, reply, client="") as stage:
            row = await stage.run()
            calls, requests = row["rollgym_calls"], stage.model.requests
            assert len(requests) == calls["answered"] == 3
            assert calls["failed"] == {"model_request": 1}
            assert calls["streamed"] == 2
            assert calls["unsent"] == ["thinking"]
            assert [each["turns"] for each in calls["conversations"]] == [[0, 1], [2]]
            first, second, _ = requests
            assert (first["instructions"], first["top_k"]) == ("You book.", 5)
            picture = first["input"][0]["content"][1]
            assert picture["image_url"] == f"data:image/png;base64,{PNG}"
            assert second["stop"] == ["END"]
            # The arguments are those that the model wrote, so that its tokens continue.
            made = [item for item in second["input"] if item.get("type") == "function_call"]
            assert [item["arguments"] for item in made] == ['{"amount":  5}']

    asyncio.run(scene())
