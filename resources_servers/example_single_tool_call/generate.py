"""Make rows: `python -m resources_servers.example_single_tool_call.generate --output FILE`."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from resources_servers.example_single_tool_call.app import WeatherServer
from resources_servers.example_single_tool_call.reports import CITIES
from rollgym.records import derive_seed
from rollgym.servers import tool_schemas

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
    """Each row depends on the seed and its own number alone."""
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
    parser = argparse.ArgumentParser(description="Questions about the weather in a city.")
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
