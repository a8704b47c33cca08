"""Make rows: `python -m resources_servers.math.generate --count N --seed S --output FILE`."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from resources_servers.math.problems import MAKERS
from rollgym.records import derive_seed
from rollgym.servers.generator import run_generator

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
    run_generator("Problems of arithmetic, algebra and calculus.", generate_rows, arguments)


if __name__ == "__main__":
    main()
