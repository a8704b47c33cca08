"""A small environment, model and agent that do and break what a test tells them to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from rollgym.records import FailureKind, RolloutError, Row, ToolError
from rollgym.records.failure import Failure, error_of
from rollgym.servers import (
    AgentServer,
    CookieJar,
    Episode,
    ModelServer,
    ResourcesServer,
    Response,
    Server,
    ServerClient,
    TaskRow,
    ToolRejection,
    Verdict,
    tool,
)
from rollgym.servers.context import current_rollout, seconds_left
from tests.integration.servers.transports import Clients, Transport, reach

Json = dict[str, Any]
WORDS = "Grüße, 世界 🌍"


class Gauge:
    """Counts work that begins, ends and is cancelled, and can be waited for."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancelled = 0
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def hang(self) -> None:
        self.begun += 1
        self.began.set()
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended.set()


class Order(TaskRow):
    expected: int = 0
    wish: str = ""


class Bench:
    """What a session remembers."""

    def __init__(self) -> None:
        self.total = 0
        self.closed = 0


class Workshop(ResourcesServer[Order, Bench]):
    """An environment with tools of every temper."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gauge = Gauge()
        self.benches: list[Bench] = []
        self.meeting = asyncio.Barrier(3)

    async def seed_session(self, task: Order) -> Bench:
        if task.wish == "no seed":
            raise OSError("no bench is free")
        self.benches.append(Bench())
        return self.benches[-1]

    async def close_session(self, state: Bench) -> None:
        state.closed += 1

    @tool
    async def add(self, state: Bench, amount: int) -> Json:
        """Add to the total."""
        state.total += amount
        return {"total": state.total}

    @tool
    async def echo(self, words: str) -> str:
        """Say it again."""
        return words

    @tool
    async def reject(self, reason: str) -> str:
        """Reject the call."""
        raise ToolRejection(reason)

    @tool
    async def fail(self, words: str = "the drawer is stuck") -> str:
        """Break."""
        raise KeyError(words)

    @tool
    async def give_up(self) -> str:
        """End the rollout."""
        try:
            raise ValueError("no wood")
        except ValueError as error:
            raise ToolError("the saw is gone", retryable=False, retry_after=1.5) from error

    @tool
    async def hang(self, state: Bench) -> str:
        """Take very long."""
        await self.gauge.hang()
        return "at last"

    @tool
    async def meet(self) -> str:
        """Return when three have come."""
        await self.meeting.wait()
        return "met"

    @tool
    async def whereabouts(self) -> Json:
        """For whom this is done, and how long it may take."""
        return {"rollout": current_rollout(), "seconds": seconds_left(1e6)}

    async def verify(self, task: Order, response: Response, state: Bench) -> Verdict:
        match response.text:
            case "raise":
                raise RuntimeError("the scales are broken")
            case "nan":
                return Verdict(float("nan"))
            case "unserialisable":
                return Verdict(1.0, bench=state)
            case "hang":
                await self.gauge.hang()
        matches = state.total == task.expected
        return Verdict(float(matches), success=matches, total=state.total, said=response.text)


class Puppet(ModelServer):
    """A model that says what it is told to."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.gauge = Gauge()
        self.heard: list[Json] = []
        self.answer: Callable[[Json], Awaitable[bytes]] = self.say_done

    async def responses(self, params: Row) -> bytes:
        heard: Json = msgspec.json.decode(params.raw)
        self.heard.append({**heard, "rollout": current_rollout(), "seconds": seconds_left(1e6)})
        return await self.answer(heard)

    async def say_done(self, _: Json) -> bytes:
        return msgspec.json.encode(said("done"))

    async def hang(self, _: Json) -> bytes:
        await self.gauge.hang()
        return b""


class Courier(AgentServer):
    """An agent that takes the steps that its task names, and then says what it is told to."""

    async def responses(self, params: Json, episode: Episode) -> Json:
        for step in params.get("steps", []):
            match step:
                case ["model"]:
                    episode.output += (await episode.ask_model({"input": "go on"})).output
                case ["tool", name, arguments]:
                    episode.output.append(await self._call(name, arguments, episode))
                case ["tools", name, arguments, times]:
                    async with asyncio.TaskGroup() as group:
                        tasks = [
                            group.create_task(self._call(name, arguments, episode))
                            for _ in range(times)
                        ]
                    episode.output += [task.result() for task in tasks]
                case ["break"]:
                    raise LookupError("lost the map")
                case ["leave rubbish"]:
                    episode.output.append({"type": "rubbish", "value": object()})
        text = {"type": "output_text", "text": params.get("says", "")}
        message = {"type": "message", "role": "assistant", "content": [text]}
        return {"output": [*episode.output, message], "usage": episode.usage_object()}

    async def _call(self, name: str, arguments: Json, episode: Episode) -> Json:
        output = await episode.call_tool(name, msgspec.json.encode(arguments))
        return {"type": "function_call_output", "call_id": name, "output": output}


class Shop:
    """The three servers, and how each is reached."""

    def __init__(self, agent: Courier, model: Puppet, workshop: Workshop, clients: Clients) -> None:
        self.agent = agent
        self.model = model
        self.workshop = workshop
        self.clients = clients

    async def run(self, row: Json) -> Json:
        """What comes of a rollout. Raises what the agent's server reports."""
        answer = await self.clients.client("agent").call(
            "/run", msgspec.json.encode(row), error=ToolError
        )
        verified: Json = msgspec.json.decode(answer.body)
        return verified


def task(*steps: Sequence[object], says: str = "", **fields: Any) -> Json:
    return {"responses_create_params": {"steps": list(steps), "says": says}, **fields}


def said(text: str) -> Json:
    """A Responses object with one message."""
    content = [{"type": "output_text", "text": text}]
    return {
        "output": [{"type": "message", "role": "assistant", "content": content}],
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }


def make(kind: type[Server], name: str, clients: Clients | None = None, **settings: Any) -> Any:
    return kind(name, kind.config_type().model_validate(settings), clients)


def workshop(**settings: Any) -> Workshop:
    server: Workshop = make(Workshop, "workshop", **settings)
    return server


@asynccontextmanager
async def open_shop(
    transport: Transport,
    agent_type: type[Courier] = Courier,
    workshop_type: type[Workshop] = Workshop,
    *,
    agent: Json | None = None,
) -> AsyncIterator[Shop]:
    """All three, with the transport between any two of them; `agent` has its settings.

    A response is verified once.
    """
    clients = Clients()
    references = {
        "resources_server": {"type": "resources_servers", "name": "workshop"},
        "model_server": {"type": "responses_api_models", "name": "model"},
    }
    shop = Shop(
        make(agent_type, "agent", clients, **references, **{"verify_attempts": 1, **(agent or {})}),
        make(Puppet, "model"),
        make(workshop_type, "workshop"),
        clients,
    )
    async with AsyncExitStack() as stack:
        for server in (shop.workshop, shop.model, shop.agent):
            client = await stack.enter_async_context(reach(server, transport))
            clients.known[server.name] = client
        yield shop


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what nobody announces."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def seeded(client: ServerClient, **fields: Any) -> CookieJar:
    """A jar with the cookie of a new session."""
    jar = CookieJar()
    assert (await client.post("/seed_session", fields, jar)).status == 200
    return jar


def every_failure() -> list[RolloutError]:
    """An error of each kind, with all that an error can carry."""
    errors = []
    for number, kind in enumerate(FailureKind):
        failure = Failure(
            kind,
            f"{kind}: {WORDS}\n{'x' * number}",
            retryable=number % 2 == 0,
            retry_after=number / 4 if number % 3 else None,
            causes=Failure.of(ExceptionGroup("", [KeyError("ö"), OSError("")])).causes,
            traceback=f'File "ü.py", line {number}',
        )
        error = error_of(failure)
        error.partial = b'{"response": {"output": [%d]}}' % number if number % 2 else None
        errors.append(error)
    return errors
