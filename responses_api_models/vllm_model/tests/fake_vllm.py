"""A stand-in for vLLM that speaks its protocol over real sockets, written from vLLM's behaviour.

It checks requests the way vLLM does, answers with the replies it was given, one after the other,
and adds tokens, log probabilities and usage only where they are asked for. Its tokens of a prompt
are characters, `$` ends a turn, and what it samples has other ids than the same text in a prompt.
With `llama_cpp` it is llama.cpp's server, which has other routes and names.
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

JsonObject = dict[str, Any]

API_KEY = "a-key-for-tests"
MODEL = "served-model"
CONTEXT_LENGTH = 200


class FakeVllm:
    """`requests` are the bodies it was sent, in order."""

    def __init__(
        self, *replies: JsonObject, gives_token_ids: bool = True, llama_cpp: bool = False
    ) -> None:
        self.requests: list[JsonObject] = []
        self._llama_cpp = llama_cpp
        self._replies = list(replies)
        self._gives_token_ids = gives_token_ids

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Gives the base URL."""
        application = web.Application()
        application.router.add_post("/v1/chat/completions", self._complete)
        application.router.add_get("/v1/models", self._models)
        application.router.add_post("/v1/completions", self._continue)
        application.router.add_post("/tokenize", self._tokenize)
        application.router.add_post("/detokenize", self._detokenize)
        application.router.add_post("/apply-template", self._apply_template)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()

    async def _models(self, _: web.Request) -> web.Response:
        owner = "llamacpp" if self._llama_cpp else "vllm"
        model = {"id": MODEL, "object": "model", "owned_by": owner}
        return web.json_response({"object": "list", "data": [model]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        text = body["content" if self._llama_cpp else "prompt"] if "messages" not in body else None
        ids = [ord(each) for each in (rendered(body) if text is None else text)]
        room = {} if self._llama_cpp else {"max_model_len": CONTEXT_LENGTH, "count": len(ids)}
        return web.json_response({"tokens": ids, **room})

    async def _detokenize(self, request: web.Request) -> web.Response:
        ids = (await request.json())["tokens"]
        return web.json_response({"prompt": "".join(map(chr, ids))})

    async def _apply_template(self, request: web.Request) -> web.Response:
        return web.json_response({"prompt": rendered(await request.json())})

    async def _continue(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.requests.append(body)
        text = self._replies.pop(0)["content"]
        ids = [*(1000 + ord(each) for each in text), ord("$")]
        choice: JsonObject = {"index": 0, "text": text, "finish_reason": "stop"}
        if self._llama_cpp:
            assert body["logprobs"] == 1
            entries = [{"id": each, "logprob": -0.5, "top_logprobs": []} for each in ids]
            choice["logprobs"] = {"content": entries}
        else:
            assert (body["logprobs"], body["return_token_ids"]) == (0, True)
            choice |= {"token_ids": ids, "logprobs": {"token_logprobs": [-0.5] * len(ids)}}
        return web.json_response({"id": "cmpl-1", "model": MODEL, "choices": [choice]})

    async def _complete(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {API_KEY}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        body = await request.json()
        self.requests.append(body)
        complaint = _complaint(body)
        if complaint:
            error = {"message": complaint, "type": "BadRequestError", "param": None, "code": 400}
            return web.json_response({"error": error}, status=400)
        return web.json_response(self._completion(body, self._replies.pop(0)))

    def _completion(self, body: JsonObject, reply: JsonObject) -> JsonObject:
        reply = dict(reply)
        finish = reply.pop("finish_reason", "tool_calls" if reply.get("tool_calls") else "stop")
        words = f"{reply.get('reasoning') or ''} {reply.get('content') or ''}".split()
        tokens = [len(word) for word in words]
        asked_tokens = body.get("return_token_ids") and self._gives_token_ids
        entries: list[JsonObject] = [
            {"token": word, "logprob": -0.25 * len(word), "bytes": None, "top_logprobs": []}
            for word in words
        ]
        prompt = [ord(character) for character in str(body["messages"][-1]["content"])]
        return {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": None, "refusal": None, **reply},
                    "logprobs": {"content": entries} if body.get("logprobs") else None,
                    "finish_reason": finish,
                    "stop_reason": None,
                    "token_ids": tokens if asked_tokens else None,
                }
            ],
            "usage": {
                "prompt_tokens": len(prompt),
                "completion_tokens": len(tokens),
                "total_tokens": len(prompt) + len(tokens),
                "prompt_tokens_details": {"cached_tokens": 1},
            },
            "prompt_logprobs": None,
            "prompt_token_ids": prompt if asked_tokens else None,
        }


def rendered(body: JsonObject) -> str:
    """The prompt for a chat."""
    turns = [f"<{each['role']}>{each['content']}$" for each in body["messages"]]
    return "".join([*turns, "<assistant>"])


def _complaint(body: JsonObject) -> str | None:
    if body.get("model") != MODEL:
        return f"The model `{body.get('model')}` does not exist."
    if body.get("tool_choice") and not body.get("tools"):
        return "When using `tool_choice`, `tools` must be set."
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            try:
                json.loads(call["function"]["arguments"])
            except ValueError as error:
                return str(error)
    length = len(json.dumps(body["messages"]))
    if length > CONTEXT_LENGTH * 10:
        return (
            f"This model's maximum context length is {CONTEXT_LENGTH} tokens. However, your "
            f"request has {length} input tokens. Please reduce the length of the input messages."
        )
    return None
