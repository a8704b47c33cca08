"""`python -m examples.grpo`: train a small language model on its own rollouts, and measure it.

The command serves the policy, starts a pool of rollouts, trains on each batch of groups that the
pool delivers, and evaluates held-out tasks before and after. The same command continues after a
stop or a crash.
"""

import asyncio
import json
import re
import shlex
import subprocess
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

import torch
from aiohttp import ClientSession

from examples.grpo.learner import Learner
from examples.grpo.policy import Policy
from examples.grpo.server import NAME, PolicyServer
from rollgym import read_branches
from rollgym.servers.http_server import listening

TASKS, MAX_STALENESS, TRAINER, START_TIMEOUT = 4000, 2, "grpo", 180
ROLLGYM = (sys.executable, "-m", "rollgym")


def options() -> Namespace:
    parser = ArgumentParser(
        "python -m examples.grpo", formatter_class=ArgumentDefaultsHelpFormatter
    )
    parser.description = (__doc__ or "").partition(": ")[2]
    add = parser.add_argument
    add("--output", type=Path, required=True, help="folder of this run; the same one continues it")
    add("--model", type=Path, help="folder or GGUF file; none: the model of `rollgym model fetch`")
    add("--environment", default="example_town_register", help="resources server with a generator")
    add("--generator-options", default="", help="options for its generator, such as '--calls 1'")
    add("--seed", type=int, default=1, help="seed of rows and sampling")
    add("--steps", type=int, default=60, help="training steps")
    add("--groups", type=int, default=32, help="groups in a step")
    add("--group-size", type=int, default=8, help="rollouts in a group")
    add("--batch", type=int, default=8, help="rollouts whose gradients are computed at once")
    add("--held-out", type=int, default=64, help="rows of the evaluation")
    add("--repeats", type=int, default=4, help="rollouts of each of them")
    add("--max-tokens", type=int, default=48, help="most tokens of a reply")
    add("--temperature", type=float, default=0.6, help="temperature of sampling and training")
    add("--learning-rate", type=float, default=1e-5, help="learning rate of AdamW")
    add("--checkpoint-every", type=int, default=1, help="steps between checkpoints")
    return parser.parse_args()


class Run:
    """One run of the command, in its folder.

    `trained` are the groups of the steps since the last checkpoint. The pool delivers a group again
    until it is acknowledged, which happens when a checkpoint has it.
    """

    def __init__(self, asked: Namespace) -> None:
        self.asked, self.folder = asked, asked.output
        (self.folder / "steps").mkdir(parents=True, exist_ok=True)
        torch.manual_seed(asked.seed)
        self.policy = Policy(asked.model)
        self.learner = Learner(self.policy, asked.learning_rate, asked.batch, asked.temperature)
        self.metrics, self.checkpoint = self.folder / "metrics.jsonl", self.folder / "checkpoint.pt"
        self.trained: list[str] = []

    async def all(self) -> None:
        """Evaluate, train, evaluate."""
        if self.metrics.exists():
            self.trained = self.learner.load(self.checkpoint)
            used = [json.loads(line)["version"] for line in self.metrics.read_text().splitlines()]
            self.policy.publish(1 + max(used))  # no other weights had this version
        async with listening(PolicyServer(self.policy)) as port:
            await self._evaluate("before", port)
            common = await self._options(port, "training", TASKS)
            async with self._open_pool(common) as pool:
                await ask(pool, "/policy", version=str(self.policy.version))
                await self._save(pool)
                while self.learner.step < self.asked.steps:
                    await self._step(pool)
                    if self.learner.step % self.asked.checkpoint_every == 0:
                        await self._save(pool)
                await self._save(pool)
            await self._evaluate("after", port)

    async def _step(self, pool: ClientSession) -> None:
        """Train on the next groups, and go on with the next version."""
        started, groups = monotonic(), dict[str, dict[str, Any]]()
        while missing := self.asked.groups - len(groups):
            answer = await ask(pool, "/groups/next", trainer=TRAINER, max=missing, wait=20)
            new = [each for each in answer["groups"] if each["id"] not in self.trained]
            groups |= {each["id"]: each for each in new}
        rows = [row for group in groups.values() for row in group["rollouts"]]
        path = self.folder / "steps" / f"{self.learner.step + 1:05}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        oldest = [int(group["versions"][0]) for group in groups.values()]
        line = {
            "step": self.learner.step + 1,
            "version": self.policy.version + 1,
            "reward": fmean(row["reward"] for row in rows),
            "rollouts": len(rows),
            "staleness": self.policy.version - fmean(oldest),
            "waited": monotonic() - started,
        }
        async with self.policy.lock:
            line |= await asyncio.to_thread(self.learner.train, [*read_branches(path)])
            line["seconds"] = monotonic() - started
            with self.metrics.open("a") as file:  # before anything is sampled by the version
                file.write(json.dumps(line) + "\n")
            self.policy.publish(self.policy.version + 1)
        self.trained += groups
        print(" ".join(f"{name} {value:.4g}" for name, value in line.items()), flush=True)
        await ask(pool, "/policy", version=str(self.policy.version))

    async def _save(self, pool: ClientSession) -> None:
        """Write a checkpoint, and acknowledge the groups that are in it."""
        await asyncio.to_thread(self.learner.save, self.checkpoint, self.trained)
        await ask(pool, "/groups/ack", trainer=TRAINER, ids=self.trained)
        self.trained = []

    async def _evaluate(self, name: str, port: int) -> None:
        """Collect rollouts of held-out tasks, and write the share of successes."""
        result, output = self.folder / f"{name}.json", self.folder / f"{name}.jsonl"
        if not result.exists():
            common = await self._options(port, "held-out", self.asked.held_out)
            repeats = ("--num-repeats", str(self.asked.repeats))
            command = [*ROLLGYM, "collect", "--output", str(output), *common, *repeats]
            await asyncio.to_thread(subprocess.run, command, check=True)
            found = {(each.task, each.repeat): each.success for each in read_branches(output)}
            success = fmean(found.values())
            result.write_text(json.dumps({"step": self.learner.step, "success": success}))
            print(f"{name} training: success {success:.3f} on held-out tasks", flush=True)

    async def _options(self, port: int, name: str, count: int) -> list[str]:
        """The options of both collections. Their rows are generated if they are not there."""
        asked, tasks = self.asked, self.folder / f"{name}-tasks.jsonl"
        if not tasks.exists():
            new, seed = tasks.with_suffix(".new"), 2 * asked.seed + (name == "held-out")
            made_by = f"-m resources_servers.{asked.environment}.generate {asked.generator_options}"
            numbers = ("--count", str(count), "--seed", str(seed), "--output", str(new))
            command = [sys.executable, *shlex.split(made_by), *numbers]
            await asyncio.to_thread(subprocess.run, command, check=True)
            new.rename(tasks)
        return [
            *("--input", str(tasks), "--agent", f"{asked.environment}_simple_agent"),
            *("--model-url", f"http://127.0.0.1:{port}/v1", "--model", NAME),
            *("--model-type", "vllm_model", "--temperature", str(asked.temperature)),
            *("--concurrency", str(asked.groups * asked.group_size)),
            f"+responses_create_params.max_output_tokens={asked.max_tokens}",
            "+policy_model.responses_api_models.vllm_model.continue_from_tokens=true",
        ]

    @asynccontextmanager
    async def _open_pool(self, common: list[str]) -> AsyncIterator[ClientSession]:
        """The pool of this run until the end of the block; it continues what it has collected."""
        output, path = str(self.folder / "rollouts.jsonl"), self.folder / "pool.log"
        stop = (*ROLLGYM, "ctl", output, "stop", "--now")
        while (await asyncio.to_thread(subprocess.run, stop, capture_output=True)).returncode == 0:
            pass  # a trainer that was killed left a pool
        numbers = f"--group-size {self.asked.group_size} --max-undelivered {self.asked.groups}"
        numbers += f" --max-staleness {MAX_STALENESS} --port 0"
        command = [*ROLLGYM, "serve-rollouts", "--output", output, *common, *numbers.split()]
        with path.open("wb") as log:  # in a session of its own, because Ctrl-C is for the trainer
            process = await asyncio.create_subprocess_exec(
                *command, stdout=log, stderr=log, start_new_session=True
            )
        try:
            async with asyncio.timeout(START_TIMEOUT):
                while not (ready := re.search(r"ready at (http://\S+)", path.read_text())):
                    if process.returncode is not None:
                        raise RuntimeError(f"the pool did not start: read {path}")
                    await asyncio.sleep(0.2)
            async with ClientSession(ready[1]) as pool:
                yield pool
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def ask(pool: ClientSession, path: str, **body: object) -> dict[str, Any]:
    """The answer of a pool. Raises RuntimeError."""
    async with pool.post(path, json=body) as answer:
        if answer.status != 200:
            raise RuntimeError(f"POST {path}: {answer.status} {await answer.text()}")
        return dict(await answer.json())


if __name__ == "__main__":
    asyncio.run(Run(options()).all())
