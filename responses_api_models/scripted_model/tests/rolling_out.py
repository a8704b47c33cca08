"""Rollouts of a bundled example with the scripted model, the plain agent and the real verifier."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from responses_api_models.scripted_model.app import ScriptedModel, ScriptedModelConfig
from rollgym.servers import (
    Http,
    ResourcesServer,
    Server,
    ServerClient,
    ServerKind,
    ServerRef,
    connect,
    http_session,
    listening,
)
from rollgym.servers.context import working_for

ROOT = Path(__file__).parents[3]
Json = dict[str, Any]


class _Directory:
    def __init__(self) -> None:
        self.clients: dict[str, ServerClient] = {}

    def client(self, name: str) -> ServerClient:
        return self.clients[name]


def example_rows(environment: str) -> list[Json]:
    path = ROOT / "resources_servers" / environment / "data" / "example.jsonl"
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


async def roll_out(
    environment: str,
    config: ScriptedModelConfig,
    *,
    repeats: int = 1,
    transport: str = "in process",
    rows: Sequence[Json] | None = None,
) -> list[Json]:
    """The verified rows of all rollouts, the repeats of a task next to each other."""
    verified = []
    async with _agent(environment, config, transport) as agent:
        for task, row in enumerate(rows or example_rows(environment)):
            for repeat in range(repeats):
                with working_for(f"{task}/{repeat}"):
                    answer = await agent.post("/run", row)
                assert answer.status == 200, answer.text
                verified.append(msgspec.json.decode(answer.body))
    return verified


@asynccontextmanager
async def _agent(
    environment: str, config: ScriptedModelConfig, transport: str
) -> AsyncIterator[ServerClient]:
    directory = _Directory()
    agent_config = SimpleAgentConfig(
        resources_server=ServerRef(type=ServerKind.RESOURCES, name="environment"),
        model_server=ServerRef(type=ServerKind.MODEL, name="policy_model"),
    )
    servers: list[Server] = [
        _environment(environment),
        ScriptedModel("policy_model", config),
        SimpleAgent("agent", agent_config, directory),
    ]
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(http_session())
        for server in servers:
            await server.start()
            stack.push_async_callback(server.close)
            if transport == "HTTP":
                port = await stack.enter_async_context(listening(server))
                http = Http(f"http://127.0.0.1:{port}", session)
                directory.clients[server.name] = ServerClient(server.name, [http])
            else:
                directory.clients[server.name] = connect(server, server.name)
        yield directory.client("agent")


def _environment(name: str) -> Server:
    """The one server that an app defines."""
    module = import_module(f"resources_servers.{name}.app")
    (server,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ResourcesServer)
        and value.__module__ == module.__name__
    )
    return server("environment", server.config_type()())


def items(verified: Json, kind: str) -> list[Json]:
    """The items of one kind in a trajectory."""
    return [item for item in verified["response"]["output"] if item["type"] == kind]
