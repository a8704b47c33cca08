"""Rollouts of the policy: groups from the pool for training, and a collection for evaluation.

The pool (`rollgym serve-rollouts`) collects while the policy is trained. It delivers each finished
group at least once, under an id, until the trainer acknowledges it. A pool that a killed trainer
left behind is used again; otherwise its journal has what was not acknowledged.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from examples.grpo.learner import Example, advantages
from rollgym import read_branches

START_TIMEOUT, STOP_TIMEOUT, GROUP_TIMEOUT, WAIT = 180, 120, 1800, 20
TRAINER = "grpo"


class Collection(NamedTuple):
    """What `rollgym` needs to know to collect rollouts of the policy."""

    environment: str
    model_url: str
    model: str
    max_tokens: int
    concurrency: int

    def arguments(self, tasks: Path, output: Path) -> list[str]:
        return [
            *("--input", str(tasks), "--output", str(output)),
            *("--agent", f"{self.environment}_simple_agent"),
            *("--model-url", self.model_url, "--model", self.model, "--model-type", "vllm_model"),
            *("--temperature", "1.0", "--concurrency", str(self.concurrency)),
            f"+responses_create_params.max_output_tokens={self.max_tokens}",
            "+policy_model.responses_api_models.vllm_model.continue_from_tokens=true",
        ]


class PoolError(RuntimeError):
    """The pool ended, or gave no group in time."""


class Pool:
    """The groups of a pool."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._restarted = True

    async def next(self, count: int) -> list[dict[str, Any]]:
        """The next groups, at most this many and at least one. Raises PoolError."""
        async with asyncio.timeout(GROUP_TIMEOUT):
            while True:
                asked = {"trainer": TRAINER, "max": count, "wait": WAIT}
                answer = await self.post("/groups/next", {**asked, "restarted": self._restarted})
                self._restarted = False
                if answer["groups"]:
                    return list(answer["groups"])

    async def acknowledge(self, groups: Sequence[str]) -> None:
        await self.post("/groups/ack", {"trainer": TRAINER, "ids": list(groups)})

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        async with self._session.post(path, json=body) as answer:
            if answer.status != 200:
                raise PoolError(f"POST {path}: {answer.status} {await answer.text()}")
            return await answer.json()

    async def answers(self) -> bool:
        try:
            async with self._session.get("/status") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False


@asynccontextmanager
async def open_pool(arguments: Sequence[str], folder: Path, port: int) -> AsyncIterator[Pool]:
    """The pool of a folder until the end of the block: one that runs already, or a new one."""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        pool, number = Pool(session), folder / "pool.pid"
        if await pool.answers():
            if not is_process(number):
                raise PoolError(f"port {port} has the pool of another run: choose --pool-port")
        else:
            with (folder / "pool.log").open("ab") as log:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "rollgym", "serve-rollouts", *arguments),
                    *("--port", str(port)),
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            number.write_text(str(process.pid))
            async with asyncio.timeout(START_TIMEOUT):
                while not await pool.answers():
                    if process.returncode is not None:
                        raise PoolError(f"the pool ended: read {folder / 'pool.log'}")
                    await asyncio.sleep(0.2)
        try:
            yield pool
        finally:
            with suppress(ProcessLookupError):  # it may have ended by itself
                os.kill(int(number.read_text()), signal.SIGTERM)
            async with asyncio.timeout(STOP_TIMEOUT):
                while await pool.answers():  # noqa: ASYNC110 - it may be of another process
                    await asyncio.sleep(0.2)


def is_process(number: Path) -> bool:
    """Whether the process whose number this file has is there."""
    try:
        os.kill(int(number.read_text()), 0)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return True


def examples_of(groups: Sequence[dict[str, Any]], path: Path) -> list[Example]:
    """What to train on. The rows are kept in a file, from which their tokens are read."""
    gains = {}
    for group in groups:
        rows = group["rollouts"]
        for row, gain in zip(rows, advantages([row["reward"] for row in rows]), strict=True):
            gains[row["_ng_task_index"], row["_ng_rollout_index"]] = gain
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for each in groups for row in each["rollouts"]))
    return [
        Example(each.input_ids, each.loss_mask, each.logprobs, gains[each.task, each.repeat])
        for each in read_branches(path)
    ]


async def evaluate(collection: Collection, tasks: Path, output: Path, repeats: int) -> float:
    """Collect rollouts of all tasks; returns the share of successes, by `rollgym profile`."""
    options = ["--num-repeats", str(repeats)]
    await run_python("-m", "rollgym", "collect", *collection.arguments(tasks, output), *options)
    lines = (await run_python("-m", "rollgym", "profile", str(output), "--json")).splitlines()
    profiles = [json.loads(line) for line in lines]
    tried = sum(profile["repeats"] for profile in profiles)
    return float(sum(profile["successes"] for profile in profiles) / tried)


async def run_python(*arguments: str) -> str:
    """Run a Python program; returns its output. Raises RuntimeError."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=pipe, stderr=pipe
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: status {process.returncode}\n{errors.decode()}")
    return output.decode()
