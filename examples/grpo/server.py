"""The policy behind OpenAI's completions, with exact tokens and its version on every answer.

`/tokenize` and `/detokenize` are those of vLLM, so `vllm_model` renders chats with tools here, and
continues each turn from the tokens of the turn before.
"""

import asyncio

import msgspec

from examples.grpo.policy import Completion, CompletionRequest, Policy
from rollgym.servers.exchange import Answer, RefusedRequestError, Request, json_answer
from rollgym.servers.server import Server, ServerConfig, decode_object

NAME, CONTEXT = "policy", 2048
GATHERING, LARGEST_BATCH = 0.01, 128


class PolicyServer(Server):
    """Answers completions of one policy."""

    kind = "policy"

    def __init__(self, policy: Policy) -> None:
        super().__init__(NAME, ServerConfig())
        self._policy = policy
        self._waiting = dict[asyncio.Future[Completion], CompletionRequest]()
        self.route("GET", "/v1/models", self._models)
        self.route("POST", "/v1/completions", self._completions)
        self.route("POST", "/tokenize", self._tokenize)
        self.route("POST", "/detokenize", self._detokenize)

    async def _sample(self, asked: CompletionRequest) -> Completion:
        """Complete a prompt; the first of those that wait samples for all of them."""
        waiter: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = asked
        try:
            await asyncio.sleep(GATHERING)
            async with self._policy.lock:
                if not waiter.done():
                    batch = [each for each in self._waiting if not each.done()][:LARGEST_BATCH]
                    requests = [self._waiting[each] for each in batch]
                    found = await asyncio.to_thread(self._policy.sample, requests)
                    for each, completion in zip(batch, found, strict=True):
                        each.set_result(completion)
            return waiter.result()
        finally:
            del self._waiting[waiter]

    async def _completions(self, request: Request) -> Answer:
        try:
            asked = msgspec.json.decode(request.body, type=CompletionRequest)
        except msgspec.DecodeError as error:
            raise RefusedRequestError(400, f"only prompts of token ids work: {error}") from error
        length, policy = len(asked.prompt), self._policy
        if not 0 < length < CONTEXT:
            what = f"the prompt has {length} tokens, the maximum context length is {CONTEXT}"
            raise RefusedRequestError(400, what)
        most = min(asked.max_tokens, CONTEXT - length)
        found = await self._sample(msgspec.structs.replace(asked, max_tokens=most))
        choice = {
            "index": 0,
            "text": policy.tokenizer.decode(found.ids, skip_special_tokens=True),
            "logprobs": {"token_logprobs": found.logprobs},
            "finish_reason": "stop" if found.ids[-1] in policy.ends else "length",
            "prompt_token_ids": asked.prompt,
            "token_ids": found.ids,
        }
        usage = {"prompt_tokens": length, "completion_tokens": len(found.ids)}
        answer = {"object": "text_completion", "model": NAME, "choices": [choice], "usage": usage}
        headers = {"x-policy-version": str(found.version)}
        return msgspec.structs.replace(json_answer(answer), headers=headers)

    async def _models(self, _: Request) -> Answer:
        return json_answer({"object": "list", "data": [{"id": NAME, "object": "model"}]})

    async def _tokenize(self, request: Request) -> Answer:
        """The ids of a text, or of a chat by the chat template of the model."""
        body, tokenizer = decode_object(request.body), self._policy.tokenizer
        if (text := body.get("prompt")) is None:
            options = {"tools": body.get("tools"), **(body.get("chat_template_kwargs") or {})}
            try:
                text = tokenizer.apply_chat_template(
                    body["messages"], tokenize=False, add_generation_prompt=True, **options
                )
            except Exception as error:  # a template can raise anything
                raise RefusedRequestError(400, f"chat template: {error!r}") from error
        ids = tokenizer.encode(text, add_special_tokens=False)
        return json_answer({"tokens": ids, "max_model_len": CONTEXT})

    async def _detokenize(self, request: Request) -> Answer:
        ids = decode_object(request.body)["tokens"]
        return json_answer({"prompt": self._policy.tokenizer.decode(ids)})
