"""A model endpoint whose policy changes: every answer says which versions really made it.

    python -m benchmarks.versioned_model --port 0 --seconds 1.5 --failures 0.05

It asks for one tool call and then answers, as the models of the other benchmarks do. An answer
takes a random time. Of the rollouts, a share fails in one of their two calls, with an error that is
not retried. The truth about the versions is in the id of the tool call and in the final text, where
no part of rollgym looks for it: `<first>..<last>`.

*Changing the policy* happens as with engines that generate: `POST /pause` holds all answers back,
`POST /resume {"version": "4"}` loads the new version and goes on. A call that was held has been
made by both.
"""

import asyncio
import math
import re
from random import Random

from aiohttp import web

from tests.counterparts.answers import Call, Turn, as_response, models
from tests.counterparts.life import begin, parser

TRUTH = re.compile(r"<(\d+)\.\.(\d+)>")


class VersionedModel:
    """The state of the endpoint."""

    def __init__(self, seconds: float, failures: float, seed: int) -> None:
        self.version = 0
        self.calls = 0
        self.failed = 0
        self._seconds = seconds
        self._call_failures = 1 - math.sqrt(1 - failures)
        self._random = Random(seed)
        self._going = asyncio.Event()
        self._going.set()

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.text()
        await self._going.wait()
        first = self.version
        self.calls += 1
        number = self.calls
        await asyncio.sleep(self._random.lognormvariate(math.log(self._seconds), 0.5))
        await self._going.wait()
        if self._random.random() < self._call_failures:
            self.failed += 1
            error = {"error": {"message": "injected", "type": "invalid_request_error"}}
            return web.json_response(error, status=400)
        truth = f"<{first}..{self.version}>"
        if '"function_call_output"' in body:
            turn = Turn(text=f"It is foggy in Berlin, at -7 degrees. {truth}")
        else:
            turn = Turn((Call(f"call_{number}_{truth}", "get_weather", '{"city": "Berlin"}'),))
        return web.json_response(as_response(turn))

    async def pause(self, _: web.Request) -> web.Response:
        self._going.clear()
        return web.json_response({})

    async def resume(self, request: web.Request) -> web.Response:
        version = (await request.json()).get("version")
        if version is not None:
            self.version = int(version)
        self._going.set()
        return web.json_response({})

    async def stats(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"calls": self.calls, "failed": self.failed, "version": self.version}
        )


async def _serve(model: VersionedModel, port: int, *, end_with_stdin: bool) -> None:
    application = web.Application(client_max_size=1 << 24)
    application.add_routes(
        [
            web.post("/v1/responses", model.answer),
            web.get("/v1/models", _models),
            web.post("/pause", model.pause),
            web.post("/resume", model.resume),
            web.get("/stats", model.stats),
        ]
    )
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    begin(runner.addresses[0][1], end_with_stdin=end_with_stdin)
    await asyncio.Event().wait()


async def _models(_: web.Request) -> web.Response:
    return web.json_response(models())


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seconds", type=float, default=1.5, help="median time of an answer")
    options.add_argument("--failures", type=float, default=0.05, help="share of failing rollouts")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()

    async def serve() -> None:
        model = VersionedModel(given.seconds, given.failures, given.seed)
        await _serve(model, given.port, end_with_stdin=given.end_with_stdin)

    asyncio.run(serve())


if __name__ == "__main__":
    main()
