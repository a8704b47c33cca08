"""The policy on a port, as a model server: chat completions, the list of models, and health.

Everything is bounded: the size of a request, the time it may take to arrive, and the number of
requests that are answered at a time. The policy decides on the event loop; only the simulated
latency waits.

*Latency* is for benchmarks that need the response times of a real model. `fixed:0.2` is always the
same; `lognormal:2.0` has this mean, and `lognormal:2.0:0.8` also this sigma (of the logarithm). The
latency of a reply depends on the policy's seed and on the request's seed, never on the time of the
request, so that a benchmark that runs again waits the same times.
"""

import asyncio
import math
import time
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from random import Random
from typing import Literal

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from rollgym.records import derive_seed
from rollgym.servers.bounds import read_body
from webgym.policies import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_SEED, MODEL_NAME
from webgym.policies.chat import (
    ChatRequestError,
    completion_body,
    error_body,
    read_request,
    read_turn,
    write_reply,
)
from webgym.policies.scripted import PoliciesError, ScriptedPolicy
from webgym.served import json_response, served

LARGEST_BODY = 64 * 2**20
"""Large enough for a chat with a window of screenshots."""
MAX_REQUESTS = 1_024
RETRY_AFTER_SECONDS = "1"
DEFAULT_SIGMA = 0.5
LONGEST_LATENCY = 120.0
LARGEST_SIGMA = 3.0


class Latency(msgspec.Struct, frozen=True):
    """Seconds until a reply; a `mean` of 0 is no delay."""

    kind: Literal["fixed", "lognormal"] = "fixed"
    mean: float = 0.0
    sigma: float = DEFAULT_SIGMA

    @classmethod
    def read(cls, text: str) -> "Latency":
        """Read the form of the command line. Raises ValueError."""
        match text.split(":"):
            case ["fixed", mean]:
                return cls("fixed", _number(mean, LONGEST_LATENCY))
            case ["lognormal", mean]:
                return cls("lognormal", _number(mean, LONGEST_LATENCY))
            case ["lognormal", mean, sigma]:
                mean_seconds = _number(mean, LONGEST_LATENCY)
                return cls("lognormal", mean_seconds, _number(sigma, LARGEST_SIGMA))
        raise ValueError(
            f"{text!r} is not a latency: write fixed:0.2, lognormal:2.0 or lognormal:2:1"
        )

    def seconds(self, seed: int, *about: int | str) -> float:
        """The latency of one reply, at most LONGEST_LATENCY."""
        if self.kind == "fixed" or self.mean == 0:
            return self.mean
        draw = Random(derive_seed(seed, "latency", *about))  # noqa: S311 - not for secrets
        mu = math.log(self.mean) - self.sigma**2 / 2
        return min(draw.lognormvariate(mu, self.sigma), LONGEST_LATENCY)


class PolicyServer:
    """Answers chat completions with the policy's decisions."""

    def __init__(
        self,
        policy: ScriptedPolicy,
        *,
        latency: Latency | None = None,
        seed: int = DEFAULT_SEED,
        max_requests: int = MAX_REQUESTS,
    ) -> None:
        self._policy = policy
        self._latency = latency or Latency()
        self._seed = seed
        self._max_requests = max_requests
        self._running = 0
        self._answered = 0

    def application(self) -> web.Application:
        """The application to serve."""
        application = web.Application(middlewares=[_explain_errors], client_max_size=LARGEST_BODY)
        application.add_routes(
            [
                web.get("/health", self._health),
                web.get("/v1/models", self._models),
                web.post("/v1/chat/completions", self._complete),
            ]
        )
        return application

    async def _health(self, _: web.Request) -> web.Response:
        return json_response({"status": "ok", "model": MODEL_NAME})

    async def _models(self, _: web.Request) -> web.Response:
        card = {"id": MODEL_NAME, "object": "model", "created": 0, "owned_by": "webgym"}
        return json_response({"object": "list", "data": [card]})

    async def _complete(self, request: web.Request) -> web.Response:
        if self._running >= self._max_requests:
            message = f"{self._max_requests} requests are running already: try again later"
            rejection = _error(HTTPStatus.TOO_MANY_REQUESTS, message)
            rejection.headers["Retry-After"] = RETRY_AFTER_SECONDS
            return rejection
        self._running += 1
        try:
            return json_response(await self._answer(await read_body(request)))
        except ChatRequestError as error:
            return _error(error.status, str(error))
        finally:
            self._running -= 1

    async def _answer(self, body: bytes) -> dict[str, object]:
        """Raises ChatRequestError."""
        started = time.monotonic()
        request = read_request(body, MODEL_NAME)
        turn = read_turn(request)
        reply = write_reply(self._policy.decide(turn), turn)
        self._answered += 1
        name = f"chatcmpl-{self._answered}"
        response = completion_body(request, name, int(time.time()), reply)
        # A rollout's requests have the same seeds each time it runs; names and addresses differ.
        about = request.seed if request.seed is not None else turn.digest.hex()
        latency = self._latency.seconds(self._seed, about)
        await asyncio.sleep(max(0.0, latency - (time.monotonic() - started)))
        return response


def serving(
    server: PolicyServer, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT
) -> AbstractAsyncContextManager[str]:
    """Serve until the end of the block; gives the URL, without a slash at its end.

    Port 0 is any free port. Raises PoliciesError.
    """
    return served(server.application(), host, port, PoliciesError)


@web.middleware
async def _explain_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn an error into one that clients of OpenAI-compatible endpoints can read."""
    try:
        return await handler(request)
    except web.HTTPClientError as error:
        return _error(HTTPStatus(error.status), (error.text or "").strip())


def _error(status: HTTPStatus, message: str) -> web.Response:
    return json_response(error_body(status, message), status)


def _number(text: str, highest: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= highest:
        raise ValueError(f"{text!r} is not a number from 0 to {highest:g}")
    return number
