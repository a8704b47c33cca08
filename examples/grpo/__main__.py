"""`python -m examples.grpo`: train a small language model on its own rollouts, and measure it.

The command serves the policy, starts a pool of rollouts, trains on each batch of groups that the
pool delivers, and evaluates held-out tasks before and after. The same command continues after a
stop or a crash: groups are acknowledged once a checkpoint has them, and a group that is in the
checkpoint is not trained on again.
"""

import asyncio
import json
import shlex
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from math import inf
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

import torch

from examples.grpo.learner import Learner
from examples.grpo.policy import Policy
from examples.grpo.rollouts import Collection, Pool, evaluate, examples_of, open_pool, run_python
from examples.grpo.server import NAME, PolicyServer
from rollgym.servers.gguf import provide_weights
from rollgym.servers.gguf.weights import BUNDLED_TEMPLATE

TASKS, CONTEXT, REMEMBERED = 4000, 2048, 10_000


def options() -> Namespace:
    summary = (__doc__ or "").partition(": ")[2]
    formatter = ArgumentDefaultsHelpFormatter
    parser = ArgumentParser("python -m examples.grpo", None, summary, formatter_class=formatter)
    add = parser.add_argument
    add("--output", type=Path, required=True, help="folder of this run; the same one continues it")
    add("--model", type=Path, help="folder or GGUF file; none: the model of `rollgym model fetch`")
    add("--environment", default="example_town_register", help="resources server with a generator")
    add("--generator-options", default="", help="options for its generator, such as '--calls 1'")
    add("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda")
    add("--threads", type=int, default=1, help="processor threads of torch")
    add("--seed", type=int, default=1, help="seed of rows and sampling")
    add("--steps", type=int, default=60, help="training steps")
    add("--minutes", type=float, default=inf, help="most minutes of training")
    add("--groups", type=int, default=32, help="groups in a step")
    add("--group-size", type=int, default=8, help="rollouts in a group")
    add("--batch", type=int, default=8, help="rollouts whose gradients are computed at once")
    add("--held-out", type=int, default=64, help="rows of the evaluation")
    add("--repeats", type=int, default=4, help="rollouts of each of them")
    add("--concurrency", type=int, default=256, help="rollouts at the same time")
    add("--max-tokens", type=int, default=48, help="most tokens of a reply")
    add("--heat", type=float, default=0.6, help="what the logits are divided by")
    add("--learning-rate", type=float, default=1e-5, help="learning rate of AdamW")
    add("--checkpoint-every", type=int, default=1, help="steps between checkpoints")
    add("--max-staleness", type=int, default=2, help="oldest versions that are trained on")
    add("--model-port", type=int, default=8765, help="port of the policy")
    add("--pool-port", type=int, default=8800, help="port of the pool")
    return parser.parse_args()


class Run:
    """One run of the command, in its folder."""

    def __init__(self, asked: Namespace) -> None:
        self.asked, self.folder = asked, asked.output
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.set_num_threads(asked.threads)
        torch.manual_seed(asked.seed)
        model, template = asked.model, None
        if model is None:
            model, template = provide_weights(), BUNDLED_TEMPLATE
        self.policy = Policy(model, template, asked.device, CONTEXT, asked.heat)
        self.learner = Learner(self.policy, asked.learning_rate, asked.batch)
        self.server = PolicyServer(self.policy)
        self.metrics: Path = self.folder / "metrics.jsonl"
        self.checkpoint: Path = self.folder / "checkpoint.pt"
        self.trained: list[str] = []
        """The groups that are in the checkpoint, or will be in the next."""
        self.pending: list[str] = []
        """Those of them that are not acknowledged."""

    async def all(self) -> None:
        """Evaluate, train, evaluate."""
        asked = self.asked
        training = await self._rows("training", TASKS, 2 * asked.seed)
        held_out = await self._rows("held-out", asked.held_out, 2 * asked.seed + 1)
        if self.checkpoint.exists():
            await self.policy.run(self._resume)
        async with self.server.serving(asked.model_port) as url:
            where = Collection(asked.environment, url, NAME, asked.max_tokens, asked.concurrency)
            await self._evaluate("before", where, held_out)
            arguments = [
                *where.arguments(training, self.folder / "rollouts.jsonl"),
                *("--group-size", str(asked.group_size)),
                *("--max-staleness", str(asked.max_staleness)),
                *("--max-undelivered", str(asked.groups)),
            ]
            async with open_pool(arguments, self.folder, asked.pool_port) as pool:
                await pool.post("/policy", {"version": str(self.policy.version)})
                ends = monotonic() + asked.minutes * 60
                while self.learner.step < asked.steps and monotonic() < ends:
                    await self._step(pool)
                    if self.learner.step % asked.checkpoint_every == 0:
                        await self._save(pool)
                await self._save(pool)
            await self._evaluate("after", where, held_out)

    async def _step(self, pool: Pool) -> None:
        """Train on the next groups, and go on with the next version."""
        started, groups = monotonic(), dict[str, Any]()
        while len(groups) < self.asked.groups:
            for group in await pool.next(self.asked.groups - len(groups)):
                if group["id"] not in self.trained:
                    groups[group["id"]] = group
                elif group["id"] not in self.pending:
                    await pool.acknowledge([group["id"]])
        step, version = self.learner.step + 1, self.policy.version
        batch = examples_of([*groups.values()], self.folder / "steps" / f"{step:05}.jsonl")
        waited = monotonic() - started
        numbers = await self.policy.run(lambda: self.learner.train(batch))
        self.trained = [*self.trained, *groups][-REMEMBERED:]
        self.pending += groups
        rewards = [row["reward"] for each in groups.values() for row in each["rollouts"]]
        oldest = [int(each["versions"][0]) for each in groups.values()]
        line = {
            "step": step,
            "version": version + 1,
            "reward": fmean(rewards),
            "rollouts": len(rewards),
            "short_groups": sum(not group["complete"] for group in groups.values()),
            "staleness": version - fmean(oldest),
            **numbers,
            "waited": waited,
            "seconds": monotonic() - started,
            "sampled": self.server.sampled,
        }
        with self.metrics.open("a") as file:  # before anything is sampled by the version
            file.write(json.dumps(line) + "\n")
        print(" ".join(f"{name} {value:.4g}" for name, value in line.items()), flush=True)
        await self.policy.run(lambda: self.policy.publish(version + 1))
        await pool.post("/policy", {"version": str(version + 1)})

    async def _save(self, pool: Pool) -> None:
        """Write a checkpoint, and acknowledge the groups that are in it."""
        notes = {"trained": self.trained}
        await self.policy.run(lambda: self.learner.save(self.checkpoint, notes))
        await pool.acknowledge(self.pending)
        self.pending = []

    def _resume(self) -> None:
        """Continue from the checkpoint, under a version that no other weights had."""
        self.trained = self.learner.load(self.checkpoint)["trained"]
        used = [json.loads(line)["version"] for line in self.metrics.read_text().splitlines()]
        self.policy.publish(1 + max(used))

    async def _rows(self, name: str, count: int, seed: int) -> Path:
        """The rows of a seed. A file that is there stays, because a pool may be reading it."""
        path, new = self.folder / f"{name}-tasks.jsonl", self.folder / f"{name}-tasks.new"
        if path not in self.folder.iterdir():
            await run_python(
                *("-m", f"resources_servers.{self.asked.environment}.generate"),
                *("--count", str(count), "--seed", str(seed), "--output", str(new)),
                *shlex.split(self.asked.generator_options),
            )
            new.rename(path)
        return Path(path)

    async def _evaluate(self, name: str, where: Collection, tasks: Path) -> None:
        result = self.folder / f"{name}.json"
        if not result.exists():
            output = self.folder / f"{name}.jsonl"
            success = await evaluate(where, tasks, output, self.asked.repeats)
            result.write_text(json.dumps({"step": self.learner.step, "success": success}))
            print(f"{name} training: success {success:.3f} on held-out tasks", flush=True)


if __name__ == "__main__":
    asyncio.run(Run(options()).all())
