"""A model that does as it is told and an environment that records, around a real agent."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig
from rollgym.records import EnvironmentSessionError, ModelUnavailableError, RolloutError, Row
from rollgym.servers import (
    Answer,
    Http,
    ModelServer,
    Request,
    ResourcesConfig,
    ResourcesServer,
    Response,
    Server,
    ServerClient,
    ServerConfig,
    ServerKind,
    ServerRef,
    TaskRow,
    ToolImage,
    ToolRejection,
    Verdict,
    connect,
    http_session,
    listening,
    tool,
    tool_schemas,
)

Json = dict[str, Any]
PATIENCE = 20.0
MODEL_COOKIE = "model_session"
PICTURE = b"\x89PNG\r\n\x1a\n of a storeroom"


class TellingModel(ModelServer):
    """Answers with the given turns, one after the other, and fails when there are no more."""

    def __init__(self, turns: Sequence[list[Json] | RolloutError], fields: Json) -> None:
        super().__init__("policy_model", ServerConfig())
        self._turns = list(turns)
        self._fields = fields
        self.requests: list[Json] = []
        self.cookies: list[dict[str, str]] = []
        self.route("POST", "/v1/responses", self._answer_with_cookie)

    async def _answer_with_cookie(self, request: Request) -> Answer:
        self.cookies.append(dict(request.cookies))
        answer = await self._answer_responses(request)
        return msgspec.structs.replace(answer, cookies={MODEL_COOKIE: "abc"})

    async def responses(self, params: Row) -> bytes:
        self.requests.append(msgspec.json.decode(params.raw))
        if len(self.requests) > len(self._turns):
            raise ModelUnavailableError("the model has gone home")
        number = len(self.requests)
        turn = self._turns[number - 1]
        if isinstance(turn, RolloutError):
            raise turn
        response = {
            "id": f"resp_{number}",
            "object": "response",
            "model": "telling",
            "status": "completed",
            "output": turn,
            "usage": {
                "input_tokens": 10 * number,
                "input_tokens_details": {"cached_tokens": number},
                "output_tokens": 3,
                "output_tokens_details": {"reasoning_tokens": 1},
                "total_tokens": 10 * number + 3,
            },
            **self._fields,
        }
        return msgspec.json.encode(response)


@dataclass
class Shelf:
    """The state of a session."""

    items: list[str] = field(default_factory=list)


class Storeroom(ResourcesServer[TaskRow, Shelf]):
    """The verdict tells what was done in the session."""

    def __init__(self, meeting: int = 2) -> None:
        super().__init__("storeroom", ResourcesConfig())
        self.verified = 0
        self._meeting = meeting
        self._barrier: asyncio.Barrier | None = None

    async def seed_session(self, task: TaskRow) -> Shelf:
        return Shelf()

    @tool
    async def put(self, state: Shelf, item: str) -> str:
        """Put an item on the shelf."""
        before = list(state.items)
        await asyncio.sleep(0.001)
        state.items = [*before, item]
        return f"{len(state.items)} on the shelf"

    @tool
    async def photograph(self) -> list[str | ToolImage]:
        """Take a picture of the storeroom."""
        return ["The storeroom:", ToolImage(PICTURE)]

    @tool
    async def gather(self, name: str) -> str:
        """Wait like `meet`, but without the promise that others may run beside it."""
        return await self.meet(name)

    @tool(parallel=True)
    async def meet(self, name: str) -> str:
        """Wait until as many have come as shall meet."""
        self._barrier = self._barrier or asyncio.Barrier(self._meeting)
        await asyncio.wait_for(self._barrier.wait(), PATIENCE)
        return f"{name} was there"

    @tool
    async def refuse(self) -> str:
        """Refuse."""
        raise ToolRejection("the storeroom is closed")

    @tool
    async def crash(self) -> str:
        """Break."""
        raise KeyError("shelf")

    @tool
    async def lose_session(self) -> str:
        """Fail the whole rollout."""
        raise EnvironmentSessionError("the storeroom burnt down")

    async def verify(self, task: TaskRow, response: Response, state: Shelf) -> Verdict:
        self.verified += 1
        return Verdict(reward=1.0, items=state.items)


class Stage(NamedTuple):
    """`agent` and `environment` are clients, over whatever transport was chosen."""

    agent: ServerClient
    environment: ServerClient
    model: TellingModel
    storeroom: Storeroom

    async def run(self, task: object = "Tidy up.", **params: object) -> Json:
        """The verified row. Raises what the agent reports."""
        answer = await self.agent.post("/run", row(task, **params))
        assert answer.status == 200, answer.text
        verified: Json = msgspec.json.decode(answer.body)
        return verified


class _Directory:
    def __init__(self) -> None:
        self.clients: dict[str, ServerClient] = {}

    def client(self, name: str) -> ServerClient:
        return self.clients[name]


@asynccontextmanager
async def on_stage(
    turns: Sequence[list[Json] | RolloutError],
    *,
    transport: str = "in process",
    settings: Json | None = None,
    storeroom: Storeroom | None = None,
    response_fields: Json | None = None,
) -> AsyncIterator[Stage]:
    """The three servers, started and connected with each other."""
    model, storeroom = TellingModel(turns, response_fields or {}), storeroom or Storeroom()
    config = SimpleAgentConfig(
        resources_server=ServerRef(type=ServerKind.RESOURCES, name="storeroom"),
        model_server=ServerRef(type=ServerKind.MODEL, name="policy_model"),
        **{"max_steps": 10, **(settings or {})},
    )
    directory = _Directory()
    agent = SimpleAgent("simple_agent", config, directory)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(http_session())
        servers: list[Server] = [model, storeroom, agent]
        for server in servers:
            await server.start()
            stack.push_async_callback(server.close)
            if transport == "HTTP":
                port = await stack.enter_async_context(listening(server))
                http = Http(f"http://127.0.0.1:{port}", session)
                directory.clients[server.name] = ServerClient(server.name, [http])
            else:
                directory.clients[server.name] = connect(server, server.name)
        agent_client, environment = map(directory.client, ("simple_agent", "storeroom"))
        yield Stage(agent_client, environment, model, storeroom)


def row(task: object = "Tidy up.", **params: object) -> Json:
    tools = tool_schemas(Storeroom)
    return {"responses_create_params": {"input": task, "tools": tools, **params}, "kept": 1.0}


def call(name: str, arguments: str = "{}", call_id: str = "call_1") -> Json:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def say(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def outputs(verified: Json) -> list[str]:
    """What the tools answered, as the model saw it."""
    items = verified["response"]["output"]
    return [item["output"] for item in items if item["type"] == "function_call_output"]
