"""Make rows: `python -m resources_servers.code_gen.generate --count N --seed S --output FILE`."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from resources_servers.code_gen.problems import MAKERS, Problem
from rollgym.records import derive_seed

INSTRUCTIONS = (
    "Write a Python program that solves the problem. Use the standard library only. Give the whole "
    "program in one block that begins with ```python and ends with ```."
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends on the seed and its own number alone."""
    for index in range(count):
        random = Random(derive_seed(seed, "code_gen", index))  # noqa: S311 - reproducible on purpose
        problem = MAKERS[index % len(MAKERS)](random)
        row: dict[str, Any] = {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    {"role": "user", "content": f"{problem.statement}\n\n{_example(problem)}"},
                ]
            },
            "topic": problem.topic,
            "test_cases": problem.test_cases,
        }
        yield row | ({"entry_point": problem.entry_point} if problem.entry_point else {})


def _example(problem: Problem) -> str:
    """A test of medium length, as one would show it."""
    by_length = sorted(problem.test_cases, key=lambda test: len(repr(test)))
    test = by_length[len(by_length) // 2]
    if problem.entry_point:
        arguments = ", ".join(map(repr, test["arguments"]))
        return f"Example: `{problem.entry_point}({arguments})` returns `{test['expected']!r}`."
    return f"Example input:\n\n{test['input']}\nIts output:\n\n{test['output']}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Small programming problems with tests.")
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
