"""A model that counts its calls and an environment, around real agents in real processes."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple

import msgspec

from responses_api_agents.command_agent.app import CommandAgent, CommandAgentConfig
from rollgym.records import RolloutError, Row
from rollgym.servers import (
    ModelServer,
    ResourcesConfig,
    ResourcesServer,
    Response,
    Server,
    ServerClient,
    ServerConfig,
    ServerKind,
    ServerRef,
    TaskRow,
    ToolRejection,
    Verdict,
    connect,
    tool,
    tool_schemas,
)

Json = dict[str, Any]
Answer = list[Json] | RolloutError
QUESTION = "How much is on the account?"
CLIENT = """
    import json, os, sys, urllib.request, urllib.error

    def post(url, body, key=os.environ["OPENAI_API_KEY"]):
        headers = {"authorization": "Bearer " + key, "content-type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def chat(*messages, **more):
        body = {"model": "any", "messages": list(messages), **more}
        url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        return post(url, body)["choices"][0]["message"]

    def user(text):
        return {"role": "user", "content": text}

"""
"""The beginning of agents that use nothing but the standard library."""


class CountingModel(ModelServer):
    """Answers by a function of the request, and keeps every request."""

    def __init__(self, answer: Callable[[Json], Answer]) -> None:
        super().__init__("policy_model", ServerConfig())
        self._answer = answer
        self.requests: list[Json] = []

    async def models(self) -> bytes:
        return msgspec.json.encode({"object": "list", "data": [{"id": "counting"}]})

    async def responses(self, params: Row) -> bytes:
        request = msgspec.json.decode(params.raw)
        self.requests.append(request)
        output = self._answer(request)
        if isinstance(output, RolloutError):
            raise output
        number = len(self.requests)
        usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13}
        response = {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "model": "counting",
            "status": "completed",
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage
            | {"input_tokens_details": {"cached_tokens": 0}}
            | {"output_tokens_details": {"reasoning_tokens": 0}},
        }
        return msgspec.json.encode(response)


class Account:
    """The state of a session."""

    def __init__(self) -> None:
        self.booked: list[int] = []


class Bank(ResourcesServer[TaskRow, Account]):
    """The verdict is about the last text and the bookings."""

    def __init__(self) -> None:
        super().__init__("bank", ResourcesConfig())
        self.verified: list[str] = []

    async def seed_session(self, task: TaskRow) -> Account:
        return Account()

    @tool
    async def book(self, state: Account, amount: int) -> str:
        """Book an amount."""
        if amount < 0:
            raise ToolRejection("amounts are positive")
        state.booked.append(amount)
        return f"booked {amount}"

    @tool
    async def audit(self) -> str:
        """Break."""
        raise KeyError("books")

    async def verify(self, task: TaskRow, response: Response, state: Account) -> Verdict:
        self.verified.append(response.text)
        return Verdict(reward=1.0, booked=state.booked)


class Stage(NamedTuple):
    """An agent's server, its model and its environment."""

    agent: ServerClient
    server: CommandAgent
    model: CountingModel
    bank: Bank

    async def run(self, **params: object) -> Json:
        """The verified row. Raises what the agent reports."""
        answer = await self.agent.post("/run", row(**params))
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
    folder: Path,
    program: str = "",
    answer: Callable[[Json], Answer] | None = None,
    *,
    client: str = CLIENT,
    model: Server | None = None,
    **settings: Any,
) -> AsyncIterator[Stage]:
    """The servers, for an agent that is this Python program after `client`."""
    if program:
        path = folder / "my_agent.py"
        path.write_text(dedent(client) + dedent(program))
        settings["command"] = [sys.executable, str(path)]
    counting = CountingModel(answer or (lambda _: [say("42")]))
    bank, directory = Bank(), _Directory()
    config = CommandAgentConfig(
        resources_server=ServerRef(type=ServerKind.RESOURCES, name="bank"),
        model_server=ServerRef(type=ServerKind.MODEL, name="policy_model"),
        work_folder=folder / "work",
        **settings,
    )
    agent = CommandAgent("command_agent", config, directory)
    async with AsyncExitStack() as stack:
        for server in (model or counting, bank, agent):
            directory.clients[server.name] = connect(server, server.name)
            await server.start()
            stack.push_async_callback(server.close)
        yield Stage(directory.client("command_agent"), agent, counting, bank)


def row(**params: object) -> Json:
    asked = {"input": [{"role": "user", "content": QUESTION}], "tools": tool_schemas(Bank)}
    return {"responses_create_params": {**asked, **params}, "secret_answer": "42"}


def say(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed"} | {
        "content": content
    }


def call(name: str, arguments: str = "{}", call_id: str = "call_1") -> Json:
    made = {"type": "function_call", "id": "f", "call_id": call_id, "name": name}
    return {**made, "arguments": arguments, "status": "completed"}
