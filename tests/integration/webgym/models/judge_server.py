"""A judge that replies as it is told, on a real socket: OpenAI's chat completions.

    async with JudgeServer(Behaviour.PASS) as judge:
        judge.verdicts["support"] = "fail"     # this kind of question fails, the others pass
        judge.script.append(Behaviour.NONSENSE)  # the next reply, once
        ...  # openai_config: {"model": "judge", "base_url": judge.base_url}

Which question it is it finds out from the words and the form of the request, as a model would.

    python -m tests.integration.webgym.models.judge_server --behaviour pass --first error --port 0

serves one until it is interrupted, and prints its base URL. `--first`, once or more often, is for
the first requests, one each.
"""

import argparse
import asyncio
import json
import re
from collections import Counter, deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from aiohttp import web

SLOW_SECONDS = 2.0
HANG_SECONDS = 120.0
_NUMBERED = re.compile(r"^(\d+)\. ", re.MULTILINE)


class Behaviour(StrEnum):
    """What becomes of a request."""

    PASS = "pass"
    FAIL = "fail"
    BLOCKED = "blocked"
    NONSENSE = "nonsense"
    TRUNCATED = "truncated"
    EMPTY_OBJECT = "empty_object"
    RATE_LIMIT = "rate_limit"
    ERROR = "error"
    UNAUTHORIZED = "unauthorized"
    NO_SCHEMA = "no_schema"
    HANG = "hang"
    SLOW = "slow"


_REFUSALS = {
    Behaviour.RATE_LIMIT: (429, "slow down"),
    Behaviour.ERROR: (500, "the judge is ill"),
    Behaviour.UNAUTHORIZED: (401, "wrong key"),
}


@dataclass(frozen=True)
class Question:
    """One request, as a judge understands it."""

    kind: str
    text: str
    images: tuple[str, ...]
    body: dict[str, Any]

    @classmethod
    def of(cls, body: dict[str, Any]) -> "Question":
        content = body["messages"][1]["content"]
        text = "\n".join(part["text"] for part in content if part["type"] == "text")
        images = tuple(part["image_url"]["url"] for part in content if part["type"] == "image_url")
        return cls(_kind(text), text, images, body)

    @property
    def facts(self) -> int:
        """How many facts it asks about."""
        return len(_NUMBERED.findall(self.text.partition("Facts:\n")[2]))


class JudgeServer:
    """`verdicts` are by the kind of question: relevance (a number), support, facts, reference,
    blocking, glance. `script` is for the next requests, one each.
    """

    def __init__(self, behaviour: Behaviour = Behaviour.PASS, port: int = 0) -> None:
        self.behaviour = behaviour
        self.verdicts: dict[str, str] = {}
        self.script: deque[Behaviour] = deque()
        self.questions: list[Question] = []
        self.most_at_once = 0
        self.base_url = ""
        self._at_once = 0
        self._port = port
        self._runner: web.AppRunner | None = None

    @property
    def kinds(self) -> Counter[str]:
        """How often each kind of question was asked."""
        return Counter(question.kind for question in self.questions)

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=2**28)
        application.router.add_post("/v1/chat/completions", self._answer)
        application.router.add_get("/v1/models", self._models)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "judge", "object": "model"}]})

    async def _answer(self, request: web.Request) -> web.Response:
        question = Question.of(await request.json())
        self.questions.append(question)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            chosen = self.script.popleft() if self.script else self.behaviour
            return await self._behave(chosen, question)
        finally:
            self._at_once -= 1

    async def _behave(self, behaviour: Behaviour, question: Question) -> web.Response:
        if behaviour in _REFUSALS:
            return _failed(*_REFUSALS[behaviour])
        match behaviour:
            case Behaviour.NONSENSE:
                return _said("I think that this is a SUCCESS. {verdict: pass}")
            case Behaviour.EMPTY_OBJECT:
                return _said("{}")
            case Behaviour.TRUNCATED:
                return _said(self._reply(question)[:-3], finish="length")
            case Behaviour.NO_SCHEMA if "response_format" in question.body:
                return _failed(400, "response_format is not supported")
            case Behaviour.HANG:
                await asyncio.sleep(HANG_SECONDS)
            case Behaviour.SLOW:
                await asyncio.sleep(SLOW_SECONDS)
        return _said(self._reply(question, behaviour))

    def _reply(self, question: Question, behaviour: Behaviour = Behaviour.PASS) -> str:
        reason = f"I looked at {len(question.images)} screenshots."
        verdict = self.verdicts.get(question.kind, _usual(question.kind, behaviour))
        match question.kind:
            case "relevance":
                said: dict[str, object] = {"reason": reason, "relevance": int(verdict)}
            case "facts":
                each = {"reason": reason, "verdict": verdict}
                said = {"facts": [{"fact": n, **each} for n in range(1, question.facts + 1)]}
            case _:
                said = {"reason": reason, "verdict": verdict}
        return json.dumps(said)


def _kind(text: str) -> str:
    """By the form of reply that it asks for, and its words."""
    if '"relevance"' in text:
        return "relevance"
    if '"blocked"' in text:
        return "blocking" if "latest screenshots" in text else "glance"
    if '"facts"' in text:
        return "facts"
    return "reference" if "Reference answer:" in text else "support"


def _usual(kind: str, behaviour: Behaviour) -> str:
    if kind == "relevance":
        return "2"
    if kind in {"blocking", "glance"}:
        return "blocked" if behaviour is Behaviour.BLOCKED else "open"
    return "fail" if behaviour in {Behaviour.FAIL, Behaviour.BLOCKED} else "pass"


def _said(text: str, finish: str = "stop") -> web.Response:
    message = {"role": "assistant", "content": text}
    return web.json_response(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "judge",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14},
        }
    )


def _failed(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)


async def _serve(behaviour: Behaviour, first: list[Behaviour], port: int) -> None:
    async with JudgeServer(behaviour, port) as judge:
        judge.script.extend(first)
        print(judge.base_url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="a judge that replies as it is told")
    parser.add_argument("--behaviour", type=Behaviour, choices=Behaviour, default=Behaviour.PASS)
    parser.add_argument("--first", type=Behaviour, choices=Behaviour, action="append", default=[])
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    try:
        asyncio.run(_serve(arguments.behaviour, arguments.first, arguments.port))
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
