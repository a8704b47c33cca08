"""A program that collects a run of sums with simulated failures into `results/demo`.

It gives the viewer a run directory without files of rollouts, whose attempts fail in three ways
before they succeed.
"""

import asyncio
from pathlib import Path
from random import Random

import msgspec

from rollgym.cli.status import print_status, read_run
from rollgym.engine import Backoff, Fixed, Policy, RetryPolicy, RetryRule, WorkItem, collect, run
from rollgym.records import (
    Completed,
    ModelRateLimitError,
    Outcome,
    Row,
    Task,
    ToolError,
    VerifierError,
)
from rollgym.store import open_run

DIRECTORY = Path("results/demo")
TASKS, REPEATS = 60, 4
FAILURES = (
    ModelRateLimitError("simulated: HTTP 429 Too Many Requests", retry_after=0.01),
    ToolError("simulated: the calculator's server closed the connection"),
    VerifierError("simulated: the verifier answered HTTP 503"),
)
RETRY = RetryPolicy(default=RetryRule(3, Backoff(initial=0.01, maximum=0.1)), by_kind={})


def row(index: int) -> Row:
    question = f"Start with {index}. Add 7. Multiply by 3."
    return Row.of({"responses_create_params": {"input": [{"role": "user", "content": question}]}})


async def solve(item: WorkItem, attempt: int, deadline: float) -> Outcome:
    """Two calls of a calculator and an answer, which is sometimes wrong."""
    random = Random(f"{item.task.index}/{item.repeat}")
    await asyncio.sleep(0.002)
    if attempt == 1 and random.random() < 0.15:
        raise random.choice(FAILURES)
    value, output = item.task.index, []
    for expression, after in ((f"{value} + 7", value + 7), (f"{value + 7} * 3", (value + 7) * 3)):
        call = {"name": "calculator", "arguments": f'{{"expression":"{expression}"}}'}
        output.append({"role": "assistant", "tool_calls": [{"function": call}]})
        output.append({"role": "tool", "content": str(after)})
    slip = random.choice((0, 0, 0, 1))
    output.append({"role": "assistant", "content": f"Answer: {(value + 7) * 3 + slip}"})
    return Completed(
        0.0 if slip else 1.0,
        measures={"tool_calls": 2.0, "response_length": 10.0},
        result=msgspec.Raw(msgspec.json.encode({"output": output})),
    )


def main() -> None:
    tasks = (Task(index, row(index), REPEATS) for index in range(TASKS))
    with open_run(DIRECTORY, tasks) as store:
        policy = Policy(concurrency=Fixed(16), retry=RETRY)
        run(collect(store.inputs, solve, store, policy))
    print_status(DIRECTORY, read_run(DIRECTORY))


if __name__ == "__main__":
    main()
