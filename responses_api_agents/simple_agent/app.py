"""The plain agent: calls the model and its tools, until the model calls no more tools."""

from typing import Any

from pydantic import Field

from rollgym.records import TaskError
from rollgym.servers import AgentConfig, AgentServer, Episode


class SimpleAgentConfig(AgentConfig):
    """`max_steps` limits the turns of the model in one episode."""

    max_steps: int = Field(default=100, ge=1)


class SimpleAgent(AgentServer):
    """Passes tool calls and their results between the model and the resources server."""

    config: SimpleAgentConfig

    async def responses(self, params: dict[str, Any], episode: Episode) -> dict[str, Any]:
        task = _items(params.get("input"))
        for _ in range(self.config.max_steps):
            response = await episode.ask_model({**params, "input": [*task, *episode.output]})
            episode.output += response.output
            calls = response.function_calls
            if not calls or response.incomplete_reason:
                return episode.finish()
            await episode.call_tools(calls, params.get("tools"))
        episode.stopped_by = "max_steps"
        return episode.finish()


def _items(given: object) -> list[Any]:
    match given:
        case str():
            return [{"role": "user", "content": given}]
        case list():
            return given
        case _:
            raise TaskError("`responses_create_params.input` must be a string or a list of items")
