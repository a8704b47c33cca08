"""Chat models for tests: over a server that plays a script, with short waits."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any, ParamSpec

from tests.faulty_model import Answer, Exchange, FaultyModel, ModelRequest, Step, answer, error
from webgym.models.chat_model import ChatModel, ChatSettings
from webgym.models.completion import Completion
from webgym.models.endpoints import read_endpoints

P = ParamSpec("P")
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
MESSAGES = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": PIXEL}},
        ],
    }
]


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test in an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


TOKEN_FIELDS = {"return_token_ids": True, "logprobs": True, "top_logprobs": 0}
"""What a request for tokens has."""


def chat_model(*models: FaultyModel | str, **settings: Any) -> ChatModel:
    urls = [model if isinstance(model, str) else model.base_url for model in models]
    return ChatModel(read_endpoints(urls), ChatSettings(**{"model": "m", **settings}))


async def ask(model: ChatModel, *, within: float = 60.0, **params: object) -> Completion:
    return await model.complete(MESSAGES, params, within=within)


def saying(text: str | None, *, model: str = "m", **choice: object) -> Answer:
    """An answer in the shape of vLLM's; `choice` has further fields of the choice."""

    def completion(request: ModelRequest) -> Mapping[str, Any]:
        if request.path.endswith("/models"):
            return {"object": "list", "data": [{"id": model, "object": "model"}]}
        message = {"role": "assistant", "content": text}
        first = {"index": 0, "message": message, "finish_reason": "stop", **choice}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": request.json["model"],
            "choices": [first],
            "prompt_token_ids": [1, 2] if "token_ids" in choice else None,
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        }

    return completion


def strict(status: int = 400) -> Step:
    """Refuse requests with fields that OpenAI's API does not have."""

    async def play(exchange: Exchange) -> bool:
        if exchange.request.path.endswith("/models"):
            return await answer(saying(None))(exchange)
        field = next((name for name in exchange.request.json if name in TOKEN_FIELDS), None)
        if field is None:
            return await answer()(exchange)
        return await error(status, f"Unrecognized request argument: {field}")(exchange)

    return play


async def together(*calls: Any) -> list[Any]:
    async with asyncio.timeout(60):
        return await asyncio.gather(*calls)
