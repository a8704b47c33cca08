"""What the gateway costs: CPU that it adds to each call of an agent.

A client has conversations of ten turns with a model in another process, directly and through a
gateway in a third process that keeps the calls and their tokens. What the gateway adds is the CPU
of its process, and what its answers cost the client more than those of the model. Rounds of both
alternate, and the median of the rounds is reported, for each of the three APIs.

    python -m benchmarks.gateway            # all figures; exits 1 when a goal is missed
    python -m benchmarks.gateway --quick    # does everything once; its figures mean nothing
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple

import aiohttp
import msgspec
from pydantic import SecretStr

from benchmarks.figure import Figures
from benchmarks.tokens import CALL, TURNS, serving
from responses_api_models.vllm_model.app import VllmModel, VllmModelConfig
from rollgym.servers import connect
from rollgym.servers.gateway.open_sessions import OpenGateway

MOST_ADDED = 1000.0
"""The goal, in microseconds of CPU for a call."""
CONVERSATIONS = 8
"""Conversations at the same time."""
INSTRUCTIONS = "You are a careful assistant. " * 100
QUESTION = "What is the weather like in Berlin?"
RESULT = "The sensor at the station reports a temperature of 18 degrees. " * 5
ARGUMENTS = msgspec.json.decode(CALL["arguments"])
TOOL = {"name": "get_weather", "description": "Look up the present weather in a city."}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

Json = dict[str, Any]


def chat(turn: int) -> Json:
    messages: list[Json] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": QUESTION},
    ]
    for before in range(turn):
        call = {"id": f"call_{before}", "type": "function", "function": CALL}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{before}", "content": RESULT})
    tool = {"type": "function", "function": {**TOOL, "parameters": SCHEMA}}
    asked = {"model": "bench", "messages": messages, "tools": [tool]}
    return {**asked, "return_token_ids": True, "logprobs": True}


def streamed_chat(turn: int) -> Json:
    return {**chat(turn), "stream": True}


def responses(turn: int) -> Json:
    items: list[Json] = [{"role": "user", "content": QUESTION}]
    for before in range(turn):
        call_id = f"call_{before}"
        items.append({"type": "function_call", "call_id": call_id, **CALL})
        items.append({"type": "function_call_output", "call_id": call_id, "output": RESULT})
    tool = {"type": "function", **TOOL, "parameters": SCHEMA, "strict": False}
    return {"model": "bench", "instructions": INSTRUCTIONS, "input": items, "tools": [tool]}


def messages(turn: int) -> Json:
    said: list[Json] = [{"role": "user", "content": QUESTION}]
    for before in range(turn):
        name = f"call_{before}"
        used = {"type": "tool_use", "id": name, "name": CALL["name"], "input": ARGUMENTS}
        result = {"type": "tool_result", "tool_use_id": name, "content": RESULT}
        said.append({"role": "assistant", "content": [used]})
        said.append({"role": "user", "content": [result]})
    tools = [{**TOOL, "input_schema": SCHEMA}]
    asked = {"model": "bench", "max_tokens": 1000, "system": INSTRUCTIONS}
    return {**asked, "messages": said, "tools": tools}


class Api(NamedTuple):
    """An API: its path below the base URL, and the body of each turn."""

    name: str
    path: str
    body: Callable[[int], Json]


APIS = (
    Api("chat", "/chat/completions", chat),
    Api("chat_stream", "/chat/completions", streamed_chat),
    Api("responses", "/responses", responses),
    Api("messages", "/messages", messages),
)


def serve_gateway(url: str, parent: Connection) -> None:
    """The gateway. It sends its URL, then its CPU seconds whenever it is asked."""
    asyncio.run(_serve_gateway(url, parent))


async def _serve_gateway(url: str, parent: Connection) -> None:
    config = VllmModelConfig(
        base_url=url, api_key=SecretStr("none"), model="bench", return_token_id_information=True
    )
    model = VllmModel("policy_model", config)
    await model.start()
    async with OpenGateway(connect(model, "policy_model")) as gateway:
        await gateway.start()
        parent.send(gateway.url)
        loop = asyncio.get_running_loop()
        asked = asyncio.Event()
        loop.add_reader(parent.fileno(), asked.set)
        while True:
            await asked.wait()
            asked.clear()
            while parent.poll():
                parent.recv()
                parent.send(time.process_time())


class RunningGateway:
    """A gateway in a process of its own."""

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self._connection = connection

    @property
    def cpu(self) -> float:
        self._connection.send(True)
        seconds: float = self._connection.recv()
        return seconds


@contextmanager
def gateway_of(model: str) -> Iterator[RunningGateway]:
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve_gateway, args=(model, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(60):
            raise RuntimeError("the gateway did not start")
        yield RunningGateway(ours.recv(), ours)
    finally:
        process.kill()
        process.join()


class Cost(NamedTuple):
    """Microseconds of CPU for a call."""

    client: float
    gateway: float = 0.0


async def converse(http: aiohttp.ClientSession, url: str, key: str, bodies: list[bytes]) -> None:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    for body in bodies:
        async with http.post(url, data=body, headers=headers) as answer:
            said = await answer.read()
            if answer.status != 200 or (b"get_weather" not in said and b"sunny" not in said):
                raise RuntimeError(f"{url} answered {answer.status}: {said[:500]!r}")


async def directly(model: str, rounds: int) -> Cost:
    bodies = [msgspec.json.encode(chat(turn)) for turn in range(TURNS)]
    async with aiohttp.ClientSession() as http:
        url = f"{model}/chat/completions"
        await converse(http, url, "none", bodies)
        began = time.process_time()
        for _ in range(rounds):
            together = [converse(http, url, "none", bodies) for _ in range(CONVERSATIONS)]
            await asyncio.gather(*together)
        spent = time.process_time() - began
    return Cost(spent / (rounds * CONVERSATIONS * TURNS) * 1e6)


async def through(gateway: RunningGateway, api: Api, rounds: int) -> Cost:
    bodies = [msgspec.json.encode(api.body(turn)) for turn in range(TURNS)]
    async with aiohttp.ClientSession() as http:

        async def opened() -> Json:
            async with http.post(f"{gateway.url}/sessions", json={}) as answer:
                found: Json = await answer.json()
                return found

        async def ended(session: Json) -> None:
            async with http.delete(f"{gateway.url}/sessions/{session['id']}") as answer:
                calls = (await answer.json())["rollgym_calls"]
            if calls["answered"] != TURNS or len(calls["conversations"]) != 1:
                raise RuntimeError(f"the gateway kept {calls['answered']} of {TURNS} calls")

        spent = kept = 0.0
        for number in range(rounds + 1):
            sessions = [await opened() for _ in range(CONVERSATIONS)]
            began, before = time.process_time(), gateway.cpu
            await asyncio.gather(
                *(
                    converse(http, each["openai_base_url"] + api.path, each["api_key"], bodies)
                    for each in sessions
                )
            )
            if number:  # the first round is for warming up
                spent += time.process_time() - began
                kept += gateway.cpu - before
            for session in sessions:
                await ended(session)
    calls = rounds * CONVERSATIONS * TURNS
    return Cost(spent / calls * 1e6, kept / calls * 1e6)


def measure(rounds: int, repeats: int, figures: Figures) -> None:
    with serving() as model, gateway_of(model) as gateway:
        asyncio.run(until_ready(model))
        direct: list[Cost] = []
        by_api: dict[str, list[Cost]] = {api.name: [] for api in APIS}
        for _ in range(repeats):
            direct.append(asyncio.run(directly(model, rounds)))
            for api in APIS:
                by_api[api.name].append(asyncio.run(through(gateway, api, rounds)))
    bare = median(each.client for each in direct)
    figures.report("gateway.client_cpu_per_direct_call", bare, "us")
    for name, costs in by_api.items():
        own = median(each.gateway for each in costs)
        more = median(each.client for each in costs) - bare
        figures.report(f"gateway.{name}.cpu_of_gateway", own, "us")
        figures.report(f"gateway.{name}.added_cpu_per_call", own + more, "us", MOST_ADDED)


async def until_ready(model: str) -> None:
    """Return when the model answers. Raises TimeoutError."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"{model}/models") as answer:
                    await answer.read()
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the gateway adds to a call.")
    parser.add_argument("--quick", action="store_true", help="everything once, on few calls")
    quick = parser.parse_args().quick
    figures = Figures()
    measure(*((1, 1) if quick else (20, 3)), figures)
    if not quick:
        figures.exit()


if __name__ == "__main__":
    main()
