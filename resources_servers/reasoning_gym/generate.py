"""Makes rows: `python -m resources_servers.reasoning_gym.generate --datasets a,b --output FILE`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import reasoning_gym  # type: ignore[import-untyped]

from resources_servers.reasoning_gym.evaluation import revived
from rollgym.servers.generator import generator_parser, write_rows

INSTRUCTIONS = (
    "Think step by step if it helps. Then give the final answer between <answer> and </answer>, in "
    "the format that the question asks for and with nothing else there."
)
NONSENSE = "?! no answer !?"
DATASETS = ("leg_counting", "spell_backward", "countdown", "number_sequence", "word_sorting")

Config = Mapping[str, Any]


class UnfitDatasetError(ValueError):
    """A dataset that cannot be used for rows."""


def generate_rows(
    count: int, seed: int, datasets: Sequence[str] = DATASETS, configs: Mapping[str, Config] = {}
) -> Iterator[dict[str, Any]]:
    """Rows of the datasets in turn. Raises UnfitDatasetError."""
    size = -(-count // len(datasets))
    sources = [_dataset(name, size, seed, configs.get(name, {})) for name in datasets]
    for number in range(count):
        index, turn = divmod(number, len(datasets))
        name = datasets[turn]
        entry = _entry(name, sources[turn], index)
        yield {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    {"role": "user", "content": entry["question"]},
                ]
            },
            "dataset": name,
            "dataset_config": dict(configs.get(name, {})),
            "seed": seed,
            "index": index,
            "entry": entry,
        }


def _dataset(name: str, size: int, seed: int, config: Config) -> Any:
    try:
        return reasoning_gym.create_dataset(name, **config, size=size, seed=seed)
    except (AssertionError, TypeError, ValueError) as error:
        raise UnfitDatasetError(f"dataset {name!r} cannot be created: {error}") from error


def _entry(name: str, dataset: Any, index: int) -> dict[str, Any]:
    """The entry as read from JSON, after a check of its scorer."""
    entry = dataset[index]
    try:
        read: dict[str, Any] = json.loads(json.dumps(entry, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UnfitDatasetError(
            f"dataset {name!r}: an entry cannot be written as JSON: {error}"
        ) from error
    before = dataset.score_answer(entry["answer"], entry)
    after = dataset.score_answer(read["answer"], revived(name, read))
    if before != after:
        raise UnfitDatasetError(
            f"dataset {name!r}: the answer of entry {index} scores {before}, but {after} after the "
            "entry was written as JSON"
        )
    if _rewards_nonsense(dataset, entry):
        raise UnfitDatasetError(f"dataset {name!r}: entry {index} gives any answer the full score")
    return read


def _rewards_nonsense(dataset: Any, entry: dict[str, Any]) -> bool:
    try:
        return bool(dataset.score_answer(NONSENSE, entry) >= 1)
    except Exception:  # noqa: BLE001 - many scorers raise for an answer of another form
        return False


def main(arguments: Sequence[str] | None = None) -> None:
    parser = generator_parser("Tasks of reasoning-gym.")
    parser.add_argument(
        "--datasets",
        type=lambda names: names.split(","),
        default=DATASETS,
        help="names of datasets, separated by commas; the rows use them in turn",
    )
    parser.add_argument(
        "--dataset-config",
        type=_named_config,
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="""settings of a dataset, such as countdown='{"max_numbers": 4}'; may be repeated""",
    )
    options = parser.parse_args(arguments)
    rows = generate_rows(
        options.count, options.seed, options.datasets, dict(options.dataset_config)
    )
    try:
        write_rows(options.output, rows)
    except UnfitDatasetError as error:
        parser.error(str(error))


def _named_config(setting: str) -> tuple[str, Config]:
    name, _, text = setting.partition("=")
    config = json.loads(text)
    if not isinstance(config, dict):
        raise ValueError(setting)  # noqa: TRY004 - argparse turns a ValueError into a message
    return name, config


if __name__ == "__main__":
    main()
