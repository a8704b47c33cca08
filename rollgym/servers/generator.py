"""The command line of the data generators of environments."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rollgym.servers.tool_results import encode_result

GenerateRows = Callable[[int, int], Iterable[dict[str, Any]]]


def generator_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=5, help="number of rows")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the rows")
    parser.add_argument("--output", type=Path, required=True, help="JSONL file to write")
    return parser


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for row in rows:
            file.write(encode_result(row) + b"\n")


def run_generator(
    description: str, generate_rows: GenerateRows, arguments: Sequence[str] | None = None
) -> None:
    """Write the rows that the command line asks for."""
    options = generator_parser(description).parse_args(arguments)
    write_rows(options.output, generate_rows(options.count, options.seed))
