r"""Make rows: `python -m resources_servers.mcqa.generate --output FILE`.

The grading modes take turns, and each prompt asks for the form that its mode reads.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from resources_servers.mcqa.extraction import GradingMode
from resources_servers.mcqa.questions import make_question
from rollgym.records import derive_seed
from rollgym.servers.generator import run_generator

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
    run_generator("Multiple-choice questions.", generate_rows, arguments)


if __name__ == "__main__":
    main()
