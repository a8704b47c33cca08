"""What becomes of a rollout whose replica of the environment is gone."""

import asyncio

import pytest

from rollgym.records import EnvironmentSessionError, Row
from rollgym.servers import Answer, CookieJar, NoAnswerError, Request, ServerClient
from rollgym.servers.client import RecoveryWait
from rollgym.servers.verification import Verification

ROW = Row.parse(b'{"x": 1}')


async def gone(request: Request, seconds: float) -> Answer:
    raise NoAnswerError("refused")


async def scores(request: Request, seconds: float) -> Answer:
    return Answer(200, b'{"x": 1, "response": {}, "reward": 1.0}')


def verified(jar: CookieJar) -> Row:
    """The verdict for a rollout whose session was opened at the replica that is gone."""

    async def verify() -> Row:
        client = ServerClient("shop", [gone, scores]).one({"replica_shop": "0"})
        return await Verification(3, 60.0, RecoveryWait(0.0))(client, jar, ROW, {})

    return asyncio.run(verify())


def test_a_response_without_a_session_is_scored_by_another_replica() -> None:
    assert b'"reward": 1.0' in verified(CookieJar()).raw


def test_a_session_that_is_gone_with_its_replica_lets_the_rollout_run_again() -> None:
    with pytest.raises(EnvironmentSessionError, match="the replica of shop that has the session"):
        verified(CookieJar({"session_shop": "a"}))
