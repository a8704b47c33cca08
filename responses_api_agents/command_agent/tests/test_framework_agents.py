"""Agents of frameworks behind the gateway, in `make test-agents` only, which installs them."""

import asyncio
import os
from pathlib import Path

import pytest

from responses_api_agents.command_agent.tests.stage import Json, call, on_stage, say

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]
OPENAI_AGENTS = """
import asyncio
import sys
from agents import Agent, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(True)


@function_tool
def book(amount: int) -> str:
    return f"booked {amount}"


agent = Agent(name="teller", instructions="You book.", tools=[book], model="gpt-x")


async def main() -> None:
    asked = sys.stdin.read()
    print((await Runner.run(agent, asked)).final_output)
    streamed = Runner.run_streamed(agent, asked)
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == "Booked."


asyncio.run(main())
"""
PYDANTIC_AI = """
import sys
from pydantic_ai import Agent

agent = Agent("{model}", instructions="You book.")


@agent.tool_plain
def book(amount: int) -> str:
    return f"booked {{amount}}"


asked = sys.stdin.read()
assert agent.run_sync(asked).output == "Booked."
with agent.run_stream_sync(asked) as streamed:
    assert streamed.get_output() == "Booked."
"""


def reply(request: Json) -> list[Json]:
    if request["input"][-1].get("type") == "function_call_output":
        return [say("Booked.")]
    thought = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm"}]}
    return [thought, call("book", '{"amount":  5}', f"call_{len(request['input'])}_{id(request)}")]


@pytest.mark.parametrize(
    ("program", "dialect"),
    [
        (OPENAI_AGENTS, "responses"),
        (PYDANTIC_AI.format(model="openai:gpt-x"), "responses"),
        (PYDANTIC_AI.format(model="openai-chat:gpt-x"), "chat"),
        (PYDANTIC_AI.format(model="anthropic:claude-sonnet-4-0"), "messages"),
    ],
    ids=["openai-agents", "pydantic-ai, Responses", "pydantic-ai, chat", "pydantic-ai, Messages"],
)
def test_every_call_of_an_agent_of_a_framework_is_in_its_rollout(
    program: str, dialect: str, tmp_path: Path
) -> None:
    python = os.environ.get("ROLLGYM_AGENTS_PYTHON")
    if not python:
        pytest.skip("ROLLGYM_AGENTS_PYTHON names no Python with frameworks: run make test-agents")
    (tmp_path / "agent.py").write_text(program)

    async def scene() -> None:
        command = [python, str(tmp_path / "agent.py")]
        async with on_stage(tmp_path, answer=reply, command=command) as stage:
            calls = (await stage.run())["rollgym_calls"]
            assert len(stage.model.requests) == calls["made"] == calls["answered"] == 4
            assert calls["dialects"] == {dialect: 4}
            assert calls["streamed"] == 2
            # Two runs of two turns, each followed through its call of a tool.
            assert [len(each["turns"]) for each in calls["conversations"]] == [2, 2]

    asyncio.run(scene())
