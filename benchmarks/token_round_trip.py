"""Whether exact tokens survive: collected from a real server, exported, and asked for again.

An agent talks with a model over several turns, once through the chat endpoint and once with every
turn sent as tokens (`continue_from_tokens`). The rollouts are exported as branches. Then the server
is asked again:

- *Breaks.* Each place where a prompt does not continue what was sampled must be explained: both
  texts are the same but for spaces and the end of the turn, which the server's own detokenizer
  tells. With turns sent as tokens there must be no break at all.
- *Log probabilities.* The ids before each turn are sent with the seed of the rollout, and the
  server must sample the same ids with the same log probabilities. Where batches change the numbers
  so much that another id is sampled, each id from there on is looked up among the likeliest.

It needs a server of llama.cpp, for example of SmolLM2-135M:

    python -m benchmarks.token_round_trip --url http://127.0.0.1:8080/v1 [--rollouts 200]
"""

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from benchmarks.figure import Figures
from responses_api_models.vllm_model.app import VllmModel, VllmModelConfig
from rollgym import (
    AgentConfig,
    AgentServer,
    Episode,
    Fixed,
    Policy,
    ResourcesConfig,
    ResourcesServer,
    Response,
    RolloutBranch,
    Row,
    Task,
    TaskRow,
    Verdict,
    collect,
    connect,
    open_run,
    read_branches,
)
from rollgym.rollouts.files import RolloutFiles
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers.client import ServerClient
from rollgym.servers.endpoints import EndpointPool, endpoint_settings
from rollgym.servers.server import ServerKind, ServerRef

LARGEST_DIFFERENCE = 0.05
"""Of two log probabilities of the same id: other batches change the sums of a quantised model."""
FOLLOWING = ("Another one.", "Say it in other words.", 'Now as JSON: {"text": ...}', "And again?")
QUESTIONS = ("Name a fruit.", "Name a city in Europe.", "Say hello.", "What is two plus two?")
LIKELIEST = 2000
CONCURRENCY = 4


WAYS: dict[str, dict[str, Any]] = {
    "continued": {"continue_from_tokens": True},
    "chat": {"return_token_id_information": True},
}
"""The settings of the model for each way of sending a turn."""


class TalkSettings(AgentConfig):
    """`turns` is how often the model is asked, `tokens` its longest reply."""

    turns: int = 3
    tokens: int = 8


class Talk(AgentServer):
    """Asks the model a question, and then for more."""

    config: TalkSettings

    async def responses(self, params: dict[str, Any], episode: Episode) -> dict[str, Any]:
        asked = {**params, "max_output_tokens": self.config.tokens}
        for turn in range(self.config.turns):
            response = await episode.ask_model(
                {**asked, "input": [*params["input"], *episode.output]}
            )
            episode.output += response.output
            if turn + 1 < self.config.turns:
                text = FOLLOWING[turn % len(FOLLOWING)]
                episode.output.append({"type": "message", "role": "user", "content": text})
        return episode.finish()


class Listener(ResourcesServer[TaskRow, None]):
    """Every conversation is worth as much as its replies are long."""

    async def verify(self, task: TaskRow, response: Response, state: None) -> Verdict:
        return Verdict(reward=float(len(response.text)))


class Directory:
    """The servers of this process by their names."""

    def __init__(self) -> None:
        self.clients: dict[str, ServerClient] = {}

    def client(self, name: str) -> ServerClient:
        return self.clients[name]


async def collected(url: str, output: Path, rollouts: int, **settings: Any) -> None:
    """Collect rollouts with this configuration of the model."""
    directory = Directory()
    config = TalkSettings(
        resources_server=ServerRef(type=ServerKind.RESOURCES, name="listener"),
        model_server=ServerRef(type=ServerKind.MODEL, name="policy_model"),
    )
    model = VllmModel("policy_model", VllmModelConfig(base_url=url, model="served", **settings))
    servers = [model, Listener("listener", ResourcesConfig()), Talk("talk", config, directory)]
    for server in servers:
        await server.start()
        directory.clients[server.name] = connect(server, server.name)
    paths = RolloutPaths.of(output)
    tasks = [Task(number, Row.of(row(number)), 1) for number in range(rollouts)]
    try:
        with open_run(paths.run, tasks, config=settings, seed=0) as store:
            files = RolloutFiles(paths, paths.run, lambda _: True)
            policy = Policy(concurrency=Fixed(CONCURRENCY), attempt_timeout=1800)
            worker = AgentWorker(directory.client)
            coverage = await collect(store.inputs, worker, store, policy)
            files.reconcile()
            files.close()
    finally:
        for server in reversed(servers):
            await server.close()
    if coverage.exit_status:
        raise SystemExit(f"the collection ended with {coverage}")


def row(number: int) -> dict[str, Any]:
    question = {"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}
    params = {"input": [question], "seed": number, "temperature": 1.0}
    return {"responses_create_params": params, "agent_ref": {"name": "talk"}}


class Server:
    """The server, asked directly."""

    def __init__(self, url: str) -> None:
        self._pool = EndpointPool(endpoint_settings(url, None, CONCURRENCY, None))

    async def text(self, ids: Sequence[int]) -> str:
        answer = await self._ask("/../detokenize", {"tokens": list(ids)})
        return str(answer["content"])

    async def sampled(
        self, prompt: Sequence[int], length: int, seed: int, likeliest: int = 1
    ) -> list[dict[str, Any]]:
        """The next tokens with their log probabilities."""
        asked = {"prompt": list(prompt), "n_predict": length, "seed": seed, "temperature": 1.0}
        answer = await self._ask("/../completion", {**asked, "n_probs": likeliest})
        # There are none for a reply that ends inside of a character.
        found: list[dict[str, Any]] = answer.get("completion_probabilities", [])
        return found

    async def close(self) -> None:
        await self._pool.close()

    async def _ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = msgspec.json.decode(
            await self._pool.post(path, msgspec.json.encode(body))
        )
        return answer


def pieces(branch: RolloutBranch) -> list[tuple[int, int]]:
    """Where the sampled ids of each turn begin and end."""
    found: list[tuple[int, int]] = []
    for place, trained in enumerate(branch.loss_mask):
        if trained and place and branch.loss_mask[place - 1]:
            found[-1] = found[-1][0], place + 1
        elif trained:
            found.append((place, place + 1))
    return found


async def differences(server: Server, branch: RolloutBranch, counts: Counter[str]) -> list[float]:
    """How far each log probability is from the one that the server gives now."""
    found: list[float] = []
    ids, logprobs = branch.input_ids, branch.logprobs
    assert logprobs is not None
    for start, end in pieces(branch):
        again = await server.sampled(ids[:start], end - start, branch.task)
        counts["turns"] += 1
        counts["turns without probabilities"] += not again
        counts["tokens"] += end - start
        if not again:
            print("EMPTY", ids[start:end], file=__import__("sys").stderr, flush=True)
        for place, token in zip(range(start, end), again, strict=False):
            if token["id"] != ids[place]:
                counts["turns with another id"] += 1
                rest = range(place, end)
                for late in rest:
                    known = await _logprob(server, ids, late)
                    counts["tokens out of sight"] += known is None
                    found += [] if known is None else [abs(known - logprobs[late])]
                break
            found.append(abs(token["logprob"] - logprobs[place]))
    return found


async def _logprob(server: Server, ids: list[int], place: int) -> float | None:
    """The log probability of an id that need not be sampled; None if it is not a likely one."""
    (token,) = await server.sampled(ids[:place], 1, 0, LIKELIEST)
    near = {each["id"]: each["logprob"] for each in token["top_logprobs"]}
    known: float | None = near.get(ids[place])
    return known


async def is_explained(server: Server, before: RolloutBranch, after: RolloutBranch) -> bool:
    """Whether two branches that part have the same text but for spaces and the end of a turn."""
    if after.reason == "prompt" or after.left_at == len(before.input_ids):
        return False
    # Whole texts, because the branches may part inside of a character.
    sampled, rewritten = [_bare(await server.text(each.input_ids)) for each in (before, after)]
    return rewritten.startswith(sampled)


def _bare(text: str) -> str:
    """The text without what need not come back: spaces, ends, and parts of a character."""
    for part in ("<|im_end|>", "<|endoftext|>", "\ufffd"):
        text = text.replace(part, "")
    return "".join(text.split())


async def measure(url: str, name: str, rollouts: int, figures: Figures, **settings: Any) -> None:
    with TemporaryDirectory(prefix="rollgym-tokens-") as folder:
        output = Path(folder) / "rollouts.jsonl"
        await collected(url, output, rollouts, **settings)
        branches = list(read_branches(output))
        rows = [json.loads(line) for line in output.read_bytes().splitlines()]
    server, report = Server(url), figures.report
    breaks: Counter[str] = Counter()
    unexplained = 0
    for before, after in pairwise(branches):
        if before.task == after.task:
            breaks[after.reason] += 1
            unexplained += not await is_explained(server, before, after)
    counts: Counter[str] = Counter()
    slots = asyncio.Semaphore(CONCURRENCY)

    async def check(branch: RolloutBranch) -> list[float]:
        async with slots:
            return await differences(server, branch, counts)

    try:
        found = [each for part in await asyncio.gather(*map(check, branches)) for each in part]
    finally:
        await server.close()
    calls = sum(len(row["rollgym_tokens"]) for row in rows)
    report(f"tokens.{name}.rollouts", len({each.task for each in branches}), "rollouts")
    report(f"tokens.{name}.turns", calls, "turns")
    report(f"tokens.{name}.branches", len(branches), "branches")
    for reason, count in sorted(breaks.items()):
        report(f"tokens.{name}.breaks.{reason}", count, "breaks")
    report(f"tokens.{name}.unexplained_breaks", unexplained, "breaks", 0)
    if settings.get("continue_from_tokens"):
        report(f"tokens.{name}.breaks", sum(breaks.values()), "breaks", 0)
    report(f"tokens.{name}.sampled_tokens", counts["tokens"], "tokens")
    unseen = counts["turns without probabilities"]
    report(f"tokens.{name}.turns_without_probabilities", unseen, "turns")
    report(f"tokens.{name}.turns_with_another_id", counts["turns with another id"], "turns")
    report(f"tokens.{name}.tokens_out_of_sight", counts["tokens out of sight"], "tokens", 0)
    report(f"tokens.{name}.median_difference", median(found), "nat")
    report(f"tokens.{name}.largest_difference", max(found), "nat", LARGEST_DIFFERENCE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask a server again for what was collected.")
    add = parser.add_argument
    add("--url", required=True, help="URL of llama.cpp's server, ending in /v1")
    add("--rollouts", type=int, default=200, help="rollouts of each way")
    add("--ways", nargs="+", choices=WAYS, default=[*WAYS], help="how turns are sent")
    given = parser.parse_args()
    figures = Figures()
    for name in given.ways:
        asyncio.run(measure(given.url, name, given.rollouts, figures, **WAYS[name]))
    figures.exit()


if __name__ == "__main__":
    main()
