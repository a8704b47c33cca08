"""Make rows: `python -m resources_servers.math.generate --count N --seed S --output FILE`."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from resources_servers.math.problems import MAKERS
from rollgym.records import derive_seed

INSTRUCTIONS = (
    "Solve the problem step by step. Put the final answer, and nothing else, in \\boxed{}."
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends on the seed and its own number alone."""
    for index in range(count):
        random = Random(derive_seed(seed, "math", index))  # noqa: S311 - reproducible on purpose
        problem = MAKERS[index % len(MAKERS)](random)
        yield {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    {"role": "user", "content": problem.question},
                ]
            },
            "question": problem.question,
            "expected_answer": problem.expected_answer,
            "topic": problem.topic,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Problems of arithmetic, algebra and calculus.")
    parser.add_argument("--count", type=int, default=5, help="number of rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True, help="JSONL file to write")
    options = parser.parse_args(arguments)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with options.output.open("wb") as file:
        for row in generate_rows(options.count, options.seed):
            file.write(msgspec.json.encode(row) + b"\n")


if __name__ == "__main__":
    main()
