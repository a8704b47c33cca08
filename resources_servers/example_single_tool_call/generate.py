"""Makes rows: `python -m resources_servers.example_single_tool_call.generate --output FILE`."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from resources_servers.example_single_tool_call.app import CITIES, WeatherServer
from rollgym.records import derive_seed
from rollgym.servers import tool_schemas
from rollgym.servers.generator import run_generator

INSTRUCTIONS = (
    "Look the weather up with the tool, then answer in one sentence with the condition and the "
    "temperature in degrees Celsius, as a number."
)
QUESTIONS = (
    "What is the weather like in {city} right now?",
    "How warm is it in {city}, and what does the sky look like?",
    "I live in {other} and fly to {city} tonight. What weather awaits me there?",
    "Compared with {other} I expect a change when I get to {city}. How is the weather in {city}?",
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends only on the seed and its own number."""
    tools = tool_schemas(WeatherServer)
    for index in range(count):
        random = Random(derive_seed(seed, "weather", index))  # noqa: S311 - reproducible on purpose
        city, other = random.sample(CITIES, 2)
        question = QUESTIONS[index % len(QUESTIONS)].format(city=city, other=other)
        yield {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    {"role": "user", "content": question},
                ],
                "tools": tools,
            },
            "expected_city": city,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    run_generator("Questions about the weather in a city.", generate_rows, arguments)


if __name__ == "__main__":
    main()
