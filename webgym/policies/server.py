"""A policy on a port, as a model server: chat completions, the list of models, and health.

Everything is bounded: the size of a request, how long it may take to arrive, and how many are
answered at a time. The policy decides on the event loop; only the pretended thinking waits.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

import msgspec
from aiohttp import web

from webgym.policies.chat import read_chat
from webgym.policies.errors import PoliciesError, WrongRequestError
from webgym.policies.latency import Latency
from webgym.policies.names import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_SEED
from webgym.policies.policy import Policy
from webgym.policies.reply import write_reply
from webgym.policies.wire import ModelCard, ModelList, completion, error_body, read_request
from webgym.served import served

LARGEST_BODY = 64 * 2**20
"""A window of screenshots has to fit."""
ARRIVAL_SECONDS = 30.0
MOST_AT_ONCE = 1_024
_AT_ONCE_AGAIN = "1"


class PolicyServer:
    """Answers for one policy, under the name of one model."""

    def __init__(
        self,
        policy: Policy,
        model: str,
        *,
        latency: Latency | None = None,
        seed: int = DEFAULT_SEED,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        self._policy = policy
        self._model = model
        self._latency = latency or Latency()
        self._seed = seed
        self._most_at_once = most_at_once
        self._at_once = 0
        self._answered = 0

    def application(self) -> web.Application:
        """To be served."""
        application = web.Application(client_max_size=LARGEST_BODY)
        application.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._complete),
            ]
        )
        return application

    async def _health(self, _: web.Request) -> web.Response:
        return _json(msgspec.json.encode({"status": "ok", "model": self._model}))

    async def _models(self, _: web.Request) -> web.Response:
        return _json(msgspec.json.encode(ModelList((ModelCard(self._model),))))

    async def _complete(self, request: web.Request) -> web.Response:
        if self._at_once >= self._most_at_once:
            message = f"{self._most_at_once} requests are being answered already: ask again later"
            refused = _refusal(HTTPStatus.TOO_MANY_REQUESTS, message)
            refused.headers["Retry-After"] = _AT_ONCE_AGAIN
            return refused
        self._at_once += 1
        try:
            return _json(await self._answer(await _body(request)))
        except WrongRequestError as error:
            return _refusal(error.status, str(error))
        finally:
            self._at_once -= 1

    async def _answer(self, body: bytes) -> bytes:
        """Raises WrongRequestError."""
        began = time.monotonic()
        request = read_request(body, self._model)
        chat = read_chat(request)
        decision = self._policy.decide(chat)
        reply = write_reply(decision, chat)
        self._answered += 1
        answer = completion(request, f"chatcmpl-{self._answered}", int(time.time()), reply)
        # A rollout's requests have the same seeds each time it is run; names and addresses differ.
        about = request.seed if request.seed is not None else chat.digest.hex()
        wanted = self._latency.seconds(self._seed, about)
        await asyncio.sleep(max(0.0, wanted - (time.monotonic() - began)))
        return msgspec.json.encode(answer)


@asynccontextmanager
async def serving(
    server: PolicyServer, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT
) -> AsyncIterator[str]:
    """Serve until the end of the block; gives the URL, without a slash at its end.

    Port 0 is any that is free. Raises PoliciesError.
    """
    async with served(server.application(), host, port, PoliciesError) as url:
        yield url


async def _body(request: web.Request) -> bytes:
    """Raises WrongRequestError."""
    try:
        async with asyncio.timeout(ARRIVAL_SECONDS):
            return await request.read()
    except TimeoutError as error:
        raise WrongRequestError(
            f"the request did not arrive within {ARRIVAL_SECONDS:g} s", HTTPStatus.REQUEST_TIMEOUT
        ) from error
    except web.HTTPRequestEntityTooLarge as error:
        raise WrongRequestError(
            f"the request is larger than {LARGEST_BODY} bytes: send fewer or smaller pictures",
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        ) from error


def _json(body: bytes, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _refusal(status: HTTPStatus, message: str) -> web.Response:
    return _json(error_body(status, message), status)
