"""Makes rows: `python -m resources_servers.example_town_register.generate --output FILE`.

Each row has worked turns of the same kind before its question, so that a small model sees the form
of a call and of an answer. Rows of an even and of an odd seed have no town in common, so one can be
held out while a model is trained on the other.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from resources_servers.example_town_register.app import (
    FIRST_NAMES,
    LAST_NAMES,
    Question,
    RegisterServer,
    RegisterTask,
    mayor_of,
    people_in,
    phone_of,
)
from rollgym.records import derive_seed
from rollgym.servers import tool_schemas
from rollgym.servers.generator import generator_parser, write_rows

INSTRUCTIONS = "Look it up with a tool, then answer in one sentence."
QUESTIONS: dict[Question, str] = {
    "people": "How many people live in {}?",
    "mayor": "Who is the mayor of {}?",
    "phone": "What is the phone number of {}?",
    "mayor_phone": "What is the phone number of the mayor of {}?",
}
ANSWERS: dict[Question, str] = {
    "people": "{} people live in {}.",
    "mayor": "{} is the mayor of {}.",
    "phone": "{} is the phone number of {}.",
    "mayor_phone": "{} is the phone number of the mayor of {}.",
}
ONE_CALL: tuple[Question, ...] = ("people", "mayor", "phone")
TWO_CALLS: tuple[Question, ...] = ("mayor_phone",)
# fmt: off
_BEGINNINGS = (
    "Al", "Bran", "Cal", "Dun", "East", "Fal", "Glen", "Hol", "Ing", "Kel", "Lam", "Mor", "Nor",
    "Os", "Pel", "Raven", "Sal", "Tarn", "Ul", "Wes",
)
_ENDINGS = (
    "beck", "bridge", "by", "cliff", "dale", "ford", "gate", "ham", "holm", "ley", "mere", "moor",
    "minster", "mouth", "ness", "port", "stead", "thorpe", "ton", "wick", "well", "worth",
)
# fmt: on
_TOWNS = [beginning + ending for beginning in _BEGINNINGS for ending in _ENDINGS]
_PEOPLE = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]


def generate_rows(count: int, seed: int, calls: int = 0) -> Iterator[dict[str, Any]]:
    """Each row depends only on the seed and its own number.

    The rows need this number of calls, 1 or 2; with 0, every other row needs two.
    """
    tools = tool_schemas(RegisterServer)
    for index in range(count):
        random = Random(derive_seed(seed, "register", index))  # noqa: S311 - reproducible on purpose
        wanted = calls or 1 + index % 2
        kinds = ONE_CALL if wanted == 1 else TWO_CALLS
        question = random.choice(kinds)
        subject = random.choice(_names(question)[seed % 2 :: 2])
        yield {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    *_worked_turns(wanted, random),
                    {"role": "user", "content": QUESTIONS[question].format(subject)},
                ],
                "tools": tools,
            },
            "question": question,
            "subject": subject,
        }


def _names(question: Question) -> list[str]:
    return _PEOPLE if question == "phone" else _TOWNS


def _worked_turns(calls: int, random: Random) -> Iterator[dict[str, Any]]:
    """Worked questions with this number of calls, in any order."""
    one: list[tuple[Question, str]] = [
        ("people", "Lindow"),
        ("mayor", "Marsk"),
        ("phone", "Ada Finch"),
    ]
    two: list[tuple[Question, str]] = [("mayor_phone", "Lindow"), ("mayor_phone", "Marsk")]
    for question, subject in random.sample(one, 3) if calls == 1 else two:
        yield from _worked(question, subject)


def _worked(question: Question, subject: str) -> Iterator[dict[str, Any]]:
    task = RegisterTask(question=question, subject=subject)
    yield {"role": "user", "content": QUESTIONS[question].format(subject)}
    for number, (tool, argument, name) in enumerate(task.needed_calls):
        identity = f"worked_{question}_{subject}_{number}".replace(" ", "_")
        arguments = f'{{"{argument}": "{name}"}}'
        result = {
            "count_people": f'{{"people": {people_in(name)}}}',
            "find_mayor": f'{{"mayor": "{mayor_of(name)}"}}',
            "find_phone": f'{{"phone": "{phone_of(name)}"}}',
        }[tool]
        call = {"type": "function_call", "call_id": identity, "name": tool}
        yield {**call, "arguments": arguments}
        yield {"type": "function_call_output", "call_id": identity, "output": result}
    yield {"role": "assistant", "content": ANSWERS[question].format(task.answer, subject)}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = generator_parser("Questions about towns and people in a register.")
    parser.add_argument(
        "--calls",
        type=int,
        choices=(0, 1, 2),
        default=0,
        help="calls that a row needs; 0: one and two in turn (default: 0)",
    )
    options = parser.parse_args(arguments)
    write_rows(options.output, generate_rows(options.count, options.seed, options.calls))


if __name__ == "__main__":
    main()
