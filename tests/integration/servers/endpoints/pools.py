"""Pools for tests: short waits, and a helper to run them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import SecretStr

from rollgym.records import RolloutError
from rollgym.servers.endpoints import EndpointPool, EndpointPoolSettings, EndpointSettings
from tests.faulty_model import FaultyModel

KEY = "sk-0123456789abcdef"
BODY = b'{"model":"faulty","input":"Hello"}'

QUICK: dict[str, Any] = {
    "backoff_initial": 0.01,
    "backoff_maximum": 0.02,
    "rest_initial": 0.05,
    "rest_maximum": 0.1,
}


def pool_of(*models: FaultyModel | str, limit: int | None = None, **settings: Any) -> EndpointPool:
    """A pool over these models, or base URLs, that retries without keeping a test waiting."""
    endpoints = [
        EndpointSettings(
            base_url=model if isinstance(model, str) else model.base_url,
            api_key=SecretStr(KEY),
            max_concurrency=limit,
        )
        for model in models
    ]
    return EndpointPool(endpoints, EndpointPoolSettings(**{**QUICK, **settings}), seed=1)


async def failure_of(call: Awaitable[bytes]) -> RolloutError:
    """The typed error that a call ends with; anything else fails the test."""
    with pytest.raises(RolloutError) as caught:
        await call
    assert KEY not in str(caught.value)
    return caught.value


async def until(holds: Callable[[], bool], within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - nobody tells when it does
            await asyncio.sleep(0.002)
