"""The plain agent: calls the model and its tools, until the model calls no more tools."""

import asyncio
from typing import Any

import msgspec
from pydantic import Field

from rollgym.records import TaskError
from rollgym.servers import AgentConfig, AgentServer, Episode, FunctionCall, Response

_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class SimpleAgentConfig(AgentConfig):
    """`max_steps` limits the turns of the model in one episode."""

    max_steps: int = Field(default=100, ge=1)


class SimpleAgent(AgentServer):
    """Passes tool calls and their results between the model and the resources server."""

    config: SimpleAgentConfig

    async def responses(self, params: dict[str, Any], episode: Episode) -> dict[str, Any]:
        task, tools = _items(params.get("input")), _tool_names(params.get("tools"))
        for step in range(1, self.config.max_steps + 1):
            response = await episode.ask_model({**params, "input": [*task, *episode.output]})
            episode.output += response.output
            calls = response.function_calls
            if not calls or response.incomplete_reason:
                return _trajectory(response, episode)
            if step < self.config.max_steps:
                episode.output += await _call_all(calls, tools, episode)
        return _trajectory(response, episode, incomplete_reason="max_steps")


async def _call_all(
    calls: list[FunctionCall], tools: set[str], episode: Episode
) -> list[dict[str, Any]]:
    """The outputs of all calls of one turn, in their order. The calls run concurrently."""
    if len(calls) == 1:
        return [await _call(calls[0], tools, episode)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_call(call, tools, episode)) for call in calls]
    return [task.result() for task in tasks]


async def _call(call: FunctionCall, tools: set[str], episode: Episode) -> dict[str, Any]:
    """Call a tool of the task. Other routes, such as the verifier, cannot be called."""
    arguments = call.arguments or "{}"
    if call.name not in tools:
        output = _error(f"unknown tool {call.name!r}; known tools: {', '.join(sorted(tools))}")
    elif problem := _problem(arguments):
        output = _error(f"the arguments of {call.name} are not a JSON object: {problem}")
    else:
        output = await episode.call_tool(call.name, arguments.encode())
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def _problem(arguments: str) -> str | None:
    try:
        _ARGUMENTS.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return str(error)
    return None


def _error(message: str) -> str:
    """An error in the same form as errors of servers, so that the model sees one form."""
    return msgspec.json.encode({"error": {"message": message}}).decode()


def _trajectory(
    last: Response, episode: Episode, incomplete_reason: str | None = None
) -> dict[str, Any]:
    """The object of the last turn, with the output and the usage of all turns."""
    whole = {**last.raw, "output": episode.output, "usage": episode.usage_object()}
    if incomplete_reason:
        whole |= {"status": "incomplete", "incomplete_details": {"reason": incomplete_reason}}
    return whole


def _items(given: object) -> list[Any]:
    match given:
        case str():
            return [{"role": "user", "content": given}]
        case list():
            return given
        case _:
            raise TaskError("`responses_create_params.input` must be a string or a list of items")


def _tool_names(tools: object) -> set[str]:
    if not isinstance(tools, list):
        return set()
    return {tool["name"] for tool in tools if isinstance(tool, dict) and "name" in tool}
