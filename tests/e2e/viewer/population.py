"""Files of rollouts for the views of many: real rows, as `ng_collect_rollouts` writes them.

Rewards, failures, lengths, tokens and times differ from one rollout to the next in a way that only
depends on the numbers of its task and repeat, so that tests can say what must be shown.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec

from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    Outcome,
    Row,
    Task,
    Usage,
)
from rollgym.rollouts.output_row import failure_row, output_row

TASKS = 40
REPEATS = 6
STARTED = 1_790_000_000.0
TOOLS = ("search", "read_page", "calculate")
SUBJECTS = ("the harbour of Brackwater", "a train to Lisbon", "the sum of the primes", "an inn")


class Counts(NamedTuple):
    """What there is in a file."""

    completed: int = 0
    failed: int = 0
    successes: int = 0

    @property
    def rollouts(self) -> int:
        return self.completed + self.failed


def populate(path: Path, tasks: int = TASKS, repeats: int = REPEATS, *, better: int = 0) -> Counts:
    """Write rollouts to `path` and those that failed beside it.

    With `better`, every rollout has as many tenths more of a reward: another checkpoint.
    """
    counts = Counts()
    failures = path.with_name(f"{path.stem}_failures.jsonl")
    with path.open("wb") as completed, failures.open("wb") as failed:
        for index in range(tasks):
            for repeat in range(repeats):
                attempt = _attempt(index, repeat, better)
                if isinstance(attempt.outcome, Completed):
                    completed.write(output_row(_task(index), attempt).raw + b"\n")
                    counts = counts._replace(
                        completed=counts.completed + 1,
                        successes=counts.successes + bool(attempt.outcome.success),
                    )
                else:
                    failed.write(failure_row(_task(index), attempt).raw + b"\n")
                    counts = counts._replace(failed=counts.failed + 1)
    return counts


def line(task: int, repeat: int, reward: float = 1.0) -> bytes:
    """One more completed rollout, for a file that grows."""
    attempt = _attempt_of(task, repeat, _completed(task, repeat, reward))
    return output_row(_task(task), attempt).raw + b"\n"


def _attempt(task: int, repeat: int, better: int) -> Attempt:
    number = task * 7 + repeat * 3
    if number % 11 == 5:
        failure = Failure.make(
            FailureKind.TIMEOUT if number % 2 else FailureKind.TOOL,
            f"no answer within {30 + number} s" if number % 2 else f"the tool broke at {number}",
        )
        return _attempt_of(task, repeat, Failed(failure))
    reward = min(10, number % 5 * 2 + number % 3 + better) / 10
    return _attempt_of(task, repeat, _completed(task, repeat, reward))


def _completed(task: int, repeat: int, reward: float) -> Completed:
    calls = (task + repeat) % 5
    output: list[dict[str, object]] = []
    for number in range(calls):
        name = TOOLS[(task + number) % len(TOOLS)]
        output += [
            {
                "type": "function_call",
                "call_id": f"c{number}",
                "name": name,
                "arguments": msgspec.json.encode({"query": SUBJECTS[task % 4]}).decode(),
            },
            {"type": "function_call_output", "call_id": f"c{number}", "output": "found"},
        ]
    answer = f"Answer of task {task}, repeat {repeat}: {SUBJECTS[task % 4]}"
    content = [{"type": "output_text", "text": answer, "annotations": []}]
    output.append({"type": "message", "role": "assistant", "content": content})
    usage = Usage(input_tokens=400 * (calls + 1) + task, output_tokens=60 + 7 * repeat)
    response = {"output": output, "model": "scripted", "usage": {}}
    result = msgspec.json.encode({"response": response, "judge_score": reward})
    return Completed(reward, success=reward >= 0.5, usage=usage, result=msgspec.Raw(result))


def _attempt_of(task: int, repeat: int, outcome: Outcome) -> Attempt:
    return Attempt(
        task=task,
        repeat=repeat,
        repeats=REPEATS,
        attempt=1,
        final=True,
        seed=0,
        started=STARTED + 20.0 * task + repeat,
        seconds=2.0 + (task * 3 + repeat) % 17,
        outcome=outcome,
    )


def _task(index: int) -> Task:
    question = f"Task {index}: say what you can find about {SUBJECTS[index % 4]}"
    asked = [{"role": "user", "content": question}]
    tools = [{"type": "function", "name": name, "parameters": {}} for name in TOOLS]
    row = {
        "responses_create_params": {"input": asked, "tools": tools},
        "domain": ("sea", "rail", "number", "inn")[index % 4],
        "difficulty": 1 + index % 3,
    }
    return Task(index, Row.of(row))
