r"""Make rows: `python -m resources_servers.mcqa.generate --output FILE`.

The grading modes take turns, and each prompt asks for the form that its mode reads.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from resources_servers.mcqa.extraction import GradingMode
from resources_servers.mcqa.questions import make_question
from rollgym.records import derive_seed

FORMS = {
    GradingMode.STRICT_SINGLE_LETTER_BOXED: (
        r"Think step by step, then give the letter of your choice as \boxed{letter}."
    ),
    GradingMode.LENIENT_BOXED: r"Give your choice as \boxed{letter} or \boxed{text of the option}.",
    GradingMode.LENIENT_ANSWER_COLON: 'End with a line "Answer: letter".',
}


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends on the seed and its own number alone."""
    modes = list(GradingMode)
    for index in range(count):
        random = Random(derive_seed(seed, "mcqa", index))  # noqa: S311 - reproducible on purpose
        question = make_question(random, index)
        mode = modes[index // 2 % len(modes)]
        options = "\n".join(f"{letter}: {text}" for letter, text in question.options.items())
        prompt = f"{question.text}\n\n{options}\n\n{FORMS[mode]}"
        yield {
            "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
            "options": [{letter: text} for letter, text in question.options.items()],
            "expected_answer": question.answer,
            "grading_mode": mode,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Multiple-choice questions.")
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
