"""One server of ours on a port, in a process of its own, as the other side of a wire meets it.

python -m tests.integration.servers.served agent --resources-url URL --model-url URL
python -m tests.integration.servers.served resources
"""

import asyncio
import json
from argparse import Namespace
from collections.abc import Mapping

import aiohttp

from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.openai_model.app import OpenAIModel, OpenAIModelConfig
from responses_api_models.vllm_model.app import VllmModel, VllmModelConfig
from rollgym.servers import (
    Http,
    ResourcesServer,
    Response,
    Server,
    ServerClient,
    TaskRow,
    ToolRejection,
    Verdict,
    http_session,
    listening,
    tool,
)
from tests.counterparts.life import begin, parser

API_KEY = "key-of-the-test"
MODEL = "served-model"


class Urls:
    """The servers of a run, each behind its URL."""

    def __init__(self, urls: Mapping[str, str], session: aiohttp.ClientSession) -> None:
        self._urls = urls
        self._session = session

    def client(self, name: str) -> ServerClient:
        return ServerClient(name, [Http(self._urls[name], self._session)])


class LedgerTask(TaskRow):
    expected_total: int


class Account:
    """What a session remembers."""

    def __init__(self) -> None:
        self.total = 0


class Ledger(ResourcesServer[LedgerTask, Account]):
    """Adds up what the model tells it to."""

    pondering = 0
    cancelled = 0
    gathering: asyncio.Barrier | None = None

    async def seed_session(self, task: LedgerTask) -> Account:
        return Account()

    @tool
    async def add(self, state: Account, amount: int) -> dict[str, int]:
        """Add an amount to the total, slowly."""
        before = state.total
        await asyncio.sleep(0.001)
        state.total = before + amount
        return {"total": state.total}

    @tool
    async def refuse(self, reason: str) -> str:
        """Reject every call."""
        raise ToolRejection(reason)

    @tool
    async def fail(self) -> str:
        """Break."""
        raise KeyError("the drawer is stuck")

    @tool(parallel=True)
    async def meet(self, parties: int) -> str:
        """Answer when that many calls are waiting at the same time."""
        self.gathering = self.gathering or asyncio.Barrier(parties)
        async with asyncio.timeout(60):
            await self.gathering.wait()
        return f"met {parties}"

    @tool
    async def ponder(self) -> str:
        """Take a very long time."""
        self.pondering += 1
        try:
            await asyncio.sleep(300)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return "done"

    @tool
    async def recall(self) -> dict[str, int]:
        """How many began to ponder, and how many of them were cancelled."""
        return {"pondering": self.pondering, "cancelled": self.cancelled}

    async def verify(self, task: LedgerTask, response: Response, state: Account) -> Verdict:
        if "please break" in response.text:
            raise RuntimeError("the scales are broken")
        matches = state.total == task.expected_total
        return Verdict(float(matches), success=matches, total=state.total, said=response.text)


class Forgetful(ResourcesServer[TaskRow, None]):
    """An environment without state."""

    @tool
    async def say(self) -> str:
        """Say something."""
        return "something"

    @tool
    async def fail(self) -> str:
        """Break."""
        raise KeyError("the drawer is stuck")

    async def verify(self, task: TaskRow, response: Response, state: None) -> Verdict:
        return Verdict(1.0)


def make(
    kind: str, urls: Mapping[str, str], session: aiohttp.ClientSession, settings: str
) -> Server:
    match kind:
        case "agent":
            references = {
                "resources_server": {"type": "resources_servers", "name": "resources"},
                "server_patience": 0.2,
                "model_server": {"type": "responses_api_models", "name": "model"},
                **json.loads(settings),
            }
            config = SimpleAgent.config_type().model_validate(references)
            return SimpleAgent("agent", config, Urls(urls, session))
        case "openai_model":
            endpoint = {"openai_base_url": f"{urls['model']}/v1", "openai_api_key": API_KEY}
            named = {**endpoint, "openai_model": MODEL}
            return OpenAIModel("model", OpenAIModelConfig.model_validate(named))
        case "vllm_model":
            named = {"base_url": f"{urls['model']}/v1", "api_key": API_KEY, "model": MODEL}
            return VllmModel("model", VllmModelConfig.model_validate(named))
        case "stateless":
            return Forgetful("forgetful", Forgetful.config_type()())
        case _:
            return Ledger("ledger", Ledger.config_type()())


async def serve(chosen: Namespace) -> None:
    urls = {"resources": chosen.resources_url, "model": chosen.model_url}
    async with http_session() as session:
        server = make(chosen.kind, urls, session, chosen.settings)
        await server.start()
        async with listening(server, port=chosen.port) as heard_at:
            begin(heard_at, end_with_stdin=chosen.end_with_stdin)
            await asyncio.Event().wait()


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "kind", choices=["agent", "resources", "stateless", "openai_model", "vllm_model"]
    )
    options.add_argument("--resources-url", default="")
    options.add_argument("--model-url", default="")
    options.add_argument("--settings", default="{}", help="further settings of the agent")
    asyncio.run(serve(options.parse_args()))


if __name__ == "__main__":
    main()
