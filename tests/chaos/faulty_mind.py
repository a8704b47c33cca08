"""What the model endpoint of a collection says: mostly the right thing, else what the task says.

The task's text holds its row's number and troubles, so that the endpoint knows which rollout a
request is of, and every rollout meets its own faults, however many run side by side.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.chaos.faulty_environment import FaultyTask, secret_of
from tests.faulty_model import (
    OVERFLOWS,
    Exchange,
    FaultyModel,
    ModelRequest,
    Step,
    answer,
    error,
    hang,
    not_http,
    reply,
    reset,
    reset_in_body,
    slow,
    truncated,
)

NOVEL = "It was a dark and stormy night. " * 40_000


def mentioned_task(request: ModelRequest) -> FaultyTask:
    """The task that the first message of the conversation is about."""
    return FaultyTask.model_validate_json(request.json["input"][0]["content"])


def sensible(request: ModelRequest) -> Mapping[str, Any]:
    """Look the secret up, again if that did not work, and say it."""
    task, last = mentioned_task(request), request.json["input"][-1]
    found = last.get("output", "")
    if found != secret_of(task.number):
        arguments = json.dumps({"number": task.number})
        call = {"call_id": "call_1", "name": "look_up", "arguments": arguments}
        item: dict[str, Any] = {"type": "function_call", "status": "completed", **call}
    else:
        text = {"type": "output_text", "text": found, "annotations": []}
        item = {"type": "message", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "faulty",
        "output": [{"id": "item_1", **item}],
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }


def endless() -> Step:
    """An answer without an end, for as long as anybody listens."""

    async def play(exchange: Exchange) -> bool:
        await exchange.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{")
        while True:
            await exchange.send(b" " * (1 << 16))

    return play


_, _OVERFLOW = OVERFLOWS["vllm, newer"]
_FAILED = {"status": "failed", "output": [], "error": {"code": "server_error", "message": "Oops"}}
FAULTS: dict[str, Step] = {
    "429": reply(429, {"error": {"message": "Slow down"}}, headers={"retry-after": "0.2"}),
    "429 for an hour": reply(429, headers={"retry-after": "3600"}),
    "429 for good": error(429, "You exceeded your quota", code="insufficient_quota"),
    "500": error(500, "Internal error"),
    "503": reply(503, b"<html>Service unavailable</html>"),
    "hangs": hang(),
    "resets": reset(),
    "resets in the body": reset_in_body(),
    "truncated": truncated(),
    "malformed": reply(200, b'{"output": ['),
    "no response": reply(200, {"output": "Fine."}),
    "failed response": reply(200, _FAILED),
    "not HTTP": not_http(),
    "endless": endless(),
    "400": error(400, "Unknown parameter: 'colour'"),
    "401": error(401, "Incorrect API key"),
    "overflow": reply(400, _OVERFLOW),
    "500 with a novel": reply(500, json.dumps({"error": {"message": NOVEL}}).encode()),
    "a novel": reply(200, NOVEL.encode()),
}


class Mind:
    """Plays every request, after `pace` seconds; remembers when each task asked, and what for."""

    def __init__(self, pace: float = 0.0) -> None:
        self.asked: dict[int, list[float]] = {}
        self.played: Counter[str] = Counter()
        self.pace = pace

    @property
    def calls(self) -> dict[int, int]:
        """How often each task asked."""
        return {number: len(times) for number, times in self.asked.items()}

    async def __call__(self, exchange: Exchange) -> bool:
        task = mentioned_task(exchange.request)
        asked = self.asked.setdefault(task.number, [])
        asked.append(time.monotonic())
        fault = task.fault("model", len(asked))
        self.played[fault or "nothing"] += 1
        step = FAULTS[fault] if fault else answer(sensible)
        return await (slow(self.pace, step) if self.pace else step)(exchange)


def minded(mind: Mind) -> FaultyModel:
    """The endpoint, to be run with `in_background`."""
    return FaultyModel(otherwise=mind)
