"""Makes rows: `python -m resources_servers.example_multi_step.generate --output FILE`.

The rows use the levels in turn, from two facts in a short document to four facts in a long one.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from resources_servers.example_multi_step.app import MultiStepServer
from resources_servers.example_multi_step.chains import make_chain
from rollgym.records import derive_seed
from rollgym.servers import tool_schemas
from rollgym.servers.generator import run_generator

TASK = """\
Find the hidden information in this document. It has about {length:,} characters. You cannot see \
it as a whole: find passages with `search_document`, and read around them with `read_passage`. \
Answer these questions, each of which builds on the one before:
{questions}
When you have found all {count} answers, end with one line: the word Answer, a colon, and the \
answers in the order of their questions, separated by semicolons."""


class Level(NamedTuple):
    """The difficulty of a task: length of the document and number of facts."""

    length: int
    facts: int


LEVELS = (
    Level(5_000, 2),
    Level(12_000, 2),
    Level(30_000, 3),
    Level(60_000, 3),
    Level(100_000, 4),
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends only on the seed and its own number."""
    tools = tool_schemas(MultiStepServer)
    for index in range(count):
        document_seed = derive_seed(seed, "multi_step", index) % 1_000_000_000
        random = Random(document_seed)  # noqa: S311 - reproducible on purpose
        level = LEVELS[index % len(LEVELS)]
        chain = make_chain(random, level.facts)
        needles = [
            {"text": text, "value": value, "position": random.randrange(5, 96) / 100}
            for text, value in chain.facts
        ]
        yield {
            "responses_create_params": {
                "input": [{"role": "user", "content": _task(chain.questions, level.length)}],
                "tools": tools,
            },
            "document": {"seed": document_seed, "length": level.length, "needles": needles},
        }


def _task(questions: Sequence[str], length: int) -> str:
    numbered = (f"{number}. {question}" for number, question in enumerate(questions, 1))
    return TASK.format(
        length=length,
        questions="\n".join(numbered),
        count=len(questions),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    run_generator("Chains of facts hidden in long documents.", generate_rows, arguments)


if __name__ == "__main__":
    main()
