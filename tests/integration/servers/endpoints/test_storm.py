"""Everything at once: faults at random, callers that leave, limits, and short deadlines."""

import asyncio
from random import Random

from rollgym.records import (
    DeadlineError,
    ModelMalformedError,
    ModelRateLimitError,
    ModelUnavailableError,
)
from tests.cases import for_each
from tests.faulty_model import (
    FaultyModel,
    Step,
    answer,
    error,
    hang,
    reply,
    reset,
    reset_in_body,
    slow,
    truncated,
    unused_port,
)
from tests.integration.servers.endpoints.pools import BODY, pool_of, until

CALLS = 300
LIMIT = 12
EXPECTED = (DeadlineError, ModelMalformedError, ModelRateLimitError, ModelUnavailableError)


def weather(random: Random) -> list[Step]:
    """A script in which about a third of the requests go wrong."""
    bad = [
        reply(429, headers={"retry-after": "0.02"}),
        error(500, "Broken"),
        reset(),
        reset_in_body(),
        truncated(),
        reply(200, b"{"),
        hang(),
        slow(0.03),
    ]
    return [random.choice(bad) if random.random() < 0.35 else answer() for _ in range(CALLS)]


@for_each("seed", range(4))
def test_in_a_storm_every_call_ends_as_expected_and_nothing_is_left_over(seed: int) -> None:
    random = Random(seed)

    async def scenario() -> None:
        dead = f"http://127.0.0.1:{unused_port()}/v1"
        async with (
            FaultyModel(weather(random)) as first,
            FaultyModel(weather(random)) as second,
            pool_of(dead, first, second, limit=LIMIT, request_timeout=0.25) as pool,
        ):
            clock = asyncio.get_running_loop().time

            async def one() -> str:
                await asyncio.sleep(random.random() * 0.5)
                try:
                    async with asyncio.timeout(random.choice([0.05, 60.0, 60.0, 60.0])):
                        await pool.post(
                            "/responses", BODY, deadline=clock() + random.choice([0.1, 60.0])
                        )
                except EXPECTED as failure:
                    return type(failure).__name__
                except TimeoutError:
                    return "left"
                return "ok"

            endings = await asyncio.gather(*(one() for _ in range(CALLS)))
            assert endings.count("ok") > CALLS / 3
            report = pool.report()
            assert report.waiting == 0
            assert [each.in_flight for each in report.endpoints] == [0, 0, 0]
            assert sum(each.ok for each in report.endpoints) == endings.count("ok")
            await until(lambda: first.in_flight == second.in_flight == 0)

    asyncio.run(scenario())
