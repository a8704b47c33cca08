"""The policy behind OpenAI's completions, with exact tokens and its version on every answer.

Requests that arrive within a few milliseconds, or while a batch is sampled, make the next batch.
`/tokenize` and `/detokenize` are those of vLLM, so `vllm_model` renders chats with tools here, and
continues each turn from the tokens of the turn before.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from uuid import uuid4

from aiohttp import web

from examples.grpo.policy import Completion, Policy, Prompt

NAME = "policy"
GATHERING = 0.01
LARGEST_BATCH = 256
DEFAULT_TOKENS = 256


class PolicyServer:
    """Answers completions of one policy. `sampled` counts the tokens of all answers."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.sampled = policy, 0
        self._waiting: asyncio.Queue[tuple[Prompt, asyncio.Future[Completion]]] = asyncio.Queue()

    @asynccontextmanager
    async def serving(self, port: int) -> AsyncIterator[str]:
        """Serve on this machine; yields the base URL."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._completions)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/detokenize", self._detokenize)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=5)
        await runner.setup()
        batches = asyncio.create_task(self._sample_batches())
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            batches.cancel()
            with suppress(asyncio.CancelledError):
                await batches
            await runner.cleanup()

    async def _sample_batches(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            await asyncio.sleep(GATHERING)
            while len(batch) < LARGEST_BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            batch = [each for each in batch if not each[1].done()]  # a caller may have left
            prompts = [prompt for prompt, _ in batch]
            try:
                found = await self._policy.run(partial(self._policy.sample, prompts))
            except Exception as error:  # noqa: BLE001 - the callers get it
                for _, waiter in batch:
                    if not waiter.done():
                        waiter.set_exception(RuntimeError(f"sampling failed: {error!r}"))
                continue
            for (_, waiter), completion in zip(batch, found, strict=True):
                self.sampled += len(completion.ids)
                if not waiter.done():
                    waiter.set_result(completion)

    async def _completions(self, request: web.Request) -> web.Response:
        body = await request.json()
        ids, room = body.get("prompt"), self._policy.context
        if not isinstance(ids, list) or not ids or not all(type(each) is int for each in ids):
            raise _bad_request("`prompt` must be an array of token ids")
        if len(ids) >= room:
            raise _bad_request(
                f"the prompt has {len(ids)} tokens, the maximum context length {room}"
            )
        heat = body.get("temperature")
        most = min(body.get("max_tokens") or DEFAULT_TOKENS, room - len(ids))
        prompt = Prompt(tuple(ids), most, 1.0 if heat is None else float(heat))
        waiter: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((prompt, waiter))
        found = await waiter
        choice = {
            "index": 0,
            "text": self._policy.tokenizer.decode(found.ids, skip_special_tokens=True),
            "logprobs": {"token_logprobs": found.logprobs},
            "finish_reason": "stop" if found.is_whole else "length",
            "prompt_token_ids": ids,
            "token_ids": found.ids,
        }
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(found.ids)}
        usage["total_tokens"] = sum(usage.values())
        version = str(found.version)
        answer: dict[str, object] = {
            "id": f"cmpl-{uuid4().hex}",
            "object": "text_completion",
            "model": NAME,
            "policy_version": version,
            "choices": [choice],
            "usage": usage,
        }
        return web.json_response(answer, headers={"x-policy-version": version})

    async def _models(self, _: web.Request) -> web.Response:
        model = {"id": NAME, "object": "model", "owned_by": "examples.grpo"}
        return web.json_response({"object": "list", "data": [model]})

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        text, tokenizer = body.get("prompt"), self._policy.tokenizer
        if text is None:
            options = {
                "tools": body.get("tools") or None,
                **(body.get("chat_template_kwargs") or {}),
            }
            try:
                text = tokenizer.apply_chat_template(
                    body["messages"], tokenize=False, add_generation_prompt=True, **options
                )
            except Exception as error:  # a template can raise anything
                raise _bad_request(f"the chat template cannot render this: {error!r}") from error
        ids = tokenizer.encode(text, add_special_tokens=False)
        return web.json_response({"tokens": ids, "max_model_len": self._policy.context})

    async def _detokenize(self, request: web.Request) -> web.Response:
        ids = (await request.json())["tokens"]
        return web.json_response({"prompt": self._policy.tokenizer.decode(ids)})


def _bad_request(message: str) -> web.HTTPBadRequest:
    body = web.json_response({"error": {"message": message}}).text
    return web.HTTPBadRequest(text=body, content_type="application/json")
