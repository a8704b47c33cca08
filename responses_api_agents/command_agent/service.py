"""An agent behind HTTP: the task is posted to its address, and its answer ends the rollout."""

import asyncio
from typing import Any, NamedTuple

import aiohttp

from rollgym.records import AgentError, DeadlineError, RolloutError
from rollgym.records.failure import shorten
from rollgym.servers import http_session

EXCERPT = 2_000
_LARGEST_EXCERPT = 64 * 1024


class ServiceCall(NamedTuple):
    """What the service gets. `timeout` is in seconds."""

    rollout: str
    urls: dict[str, str]
    key: str
    prompt: str
    task: dict[str, Any]
    timeout: float

    @property
    def body(self) -> dict[str, Any]:
        return {
            "rollout": self.rollout,
            "prompt": self.prompt,
            "task": self.task,
            "openai_base_url": self.urls["OPENAI_BASE_URL"],
            "anthropic_base_url": self.urls["ANTHROPIC_BASE_URL"],
            "tools_url": self.urls["ROLLGYM_TOOLS_URL"],
            "api_key": self.key,
            "timeout": round(self.timeout),
        }


class AgentService:
    """The service at a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def run(self, call: ServiceCall, exhausted: asyncio.Event) -> RolloutError | None:
        """Returns when the service has answered, or the agent has used up its calls."""
        posting = asyncio.ensure_future(self._post(call))
        stopping = asyncio.ensure_future(exhausted.wait())
        try:
            await asyncio.wait(
                {posting, stopping}, timeout=call.timeout, return_when=asyncio.FIRST_COMPLETED
            )
            if posting.done():
                return posting.result()
            if exhausted.is_set():
                return None
            return DeadlineError(f"{self._url} did not answer within {call.timeout:.3g} s")
        finally:
            for task in (posting, stopping):
                task.cancel()
            await asyncio.wait({posting, stopping})

    async def _post(self, call: ServiceCall) -> RolloutError | None:
        if self._session is None:
            self._session = http_session()
        try:
            async with self._session.post(self._url, json=call.body) as response:
                said = (await response.content.read(_LARGEST_EXCERPT)).decode("utf-8", "replace")
                status = response.status
        except (aiohttp.ClientError, OSError) as error:
            what = f"{self._url} cannot be asked: {type(error).__name__}: {error}"
            return AgentError(what, retryable=True)
        if 200 <= status < 300:
            return None
        retryable = True if status in (429, 503) else None
        what = f"{self._url} answered HTTP {status}"
        said = f": {shorten(said, EXCERPT)}" if said else ""
        return AgentError(f"{what}{said}", retryable=retryable)
