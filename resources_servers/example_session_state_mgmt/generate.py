"""Makes rows: `python -m resources_servers.example_session_state_mgmt.generate --output FILE`."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from resources_servers.example_session_state_mgmt.app import CounterServer
from rollgym.records import derive_seed
from rollgym.servers import tool_schemas
from rollgym.servers.generator import run_generator

ADDING = "Add {numbers} to the counter, one after the other. Then read it and tell me its value."
REACHING = (
    "The counter is somewhere below {target}. Read it, bring it to exactly {target}, and tell me "
    "by how much you had to increment it."
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends only on the seed and its own number. The two kinds of tasks alternate."""
    tools = tool_schemas(CounterServer)
    for index in range(count):
        random = Random(derive_seed(seed, "counter", index))  # noqa: S311 - reproducible on purpose
        initial = random.randint(0, 50)
        steps = [random.randint(1, 20) for _ in range(random.randint(2, 4))]
        expected = initial + sum(steps)
        if index % 2:
            task = REACHING.format(target=expected)
        else:
            numbers = " and ".join([", ".join(map(str, steps[:-1])), str(steps[-1])])
            task = ADDING.format(numbers=numbers)
        yield {
            "responses_create_params": {
                "input": [{"role": "user", "content": task}],
                "tools": tools,
            },
            "initial_count": initial,
            "expected_count": expected,
        }


def main(arguments: Sequence[str] | None = None) -> None:
    run_generator("Bring a counter to a value.", generate_rows, arguments)


if __name__ == "__main__":
    main()
