"""Every dataset of the package, scored in isolated workers as the server does it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("reasoning_gym")

from reasoning_gym.factory import DATASETS  # type: ignore[import-untyped]

from resources_servers.reasoning_gym.generate import UnfitDatasetError, generate_rows
from rollgym.servers.isolation import CallFailedError, IsolatedWorkers

SCORE = "resources_servers.reasoning_gym.scoring:score"
UNFIT = {"composite", "game_of_life_halting"}
FIT = sorted(DATASETS.keys() - UNFIT)
EVALUATING = ["string_insertion", "spiral_matrix", "binary_matrix", "n_queens", "countdown"]
EVALUATING += ["puzzle24", "simple_integration", "polynomial_multiplication"]
# Where an entry has no answer of its own, its metadata may hold one.
EXAMPLES = {"graph_color": "possible_answer", "rubiks_cube": "example_correct_answer"}
EXAMPLES |= {"propositional_logic": "example_answer"}


def reference(entry: dict[str, Any]) -> str | None:
    dataset = entry["metadata"]["source_dataset"]
    if entry["answer"] is not None or dataset not in EXAMPLES:
        answer: str | None = entry["answer"]
        return answer
    example = entry["metadata"][EXAMPLES[dataset]]
    return example if isinstance(example, str) else json.dumps(example)


async def scores(
    answers: list[tuple[str, dict[str, Any], str]], config: str = "{}"
) -> list[float | str]:
    async with IsolatedWorkers(SCORE, start_timeout=60) as workers:

        async def score(dataset: str, entry: dict[str, Any], answer: str) -> float | str:
            try:
                value: float = await workers.call(
                    dataset, config, json.dumps(entry), answer, timeout=60
                )
            except CallFailedError as error:
                return error.error_type
            return value

        return await asyncio.gather(*(score(*answer) for answer in answers))


@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a dataset leaves a file open
def test_reference_answers_have_the_full_score_after_the_journey_through_json() -> None:
    entries = {name: next(generate_rows(1, 5, [name]))["entry"] for name in FIT}
    known = {name: reference(entry) for name, entry in entries.items()}
    assert [name for name, answer in known.items() if answer is None] == ["boxnet", "rush_hour"]
    asked = [(name, entries[name], answer) for name, answer in known.items() if answer is not None]
    results = asyncio.run(scores(asked))
    short = {name: score for (name, *_), score in zip(asked, results, strict=True) if score != 1}
    # Its references leave the integral to be worked out, which does not count as an answer.
    assert short == {"intermediate_integration": 0.0}
    assert "Integral" in entries["intermediate_integration"]["answer"]


@pytest.mark.parametrize("name", sorted(UNFIT))
def test_a_dataset_without_a_useful_scorer_is_refused(name: str) -> None:
    with pytest.raises(UnfitDatasetError, match=f"dataset '{name}'"):
        list(generate_rows(1, 5, [name]))


def test_python_in_an_answer_does_not_run(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    code = f"__import__('pathlib').Path({str(proof)!r}).touch()"
    entries = [(name, next(generate_rows(1, 5, [name]))["entry"]) for name in EVALUATING]
    results = asyncio.run(scores([(name, entry, code) for name, entry in entries]))
    assert not proof.exists()
    assert all(isinstance(score, float) and score <= 0.05 for score in results)


def test_python_in_a_row_does_not_run(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    code = f"__import__('pathlib').Path({str(proof)!r}).touch()"
    entries = {
        "bitwise_arithmetic": {"answer": "1", "metadata": {"problem": code}},
        "number_sorting": {"answer": code, "metadata": {}},
    }
    asyncio.run(scores([(name, entry, "[1]") for name, entry in entries.items()]))
    assert not proof.exists()


def test_the_question_written_as_an_integral_is_no_answer() -> None:
    entry = next(generate_rows(1, 5, ["simple_integration"]))["entry"]
    metadata = entry["metadata"]
    echo = f"Integral({metadata['integrand']}, {metadata['variable']})"
    assert asyncio.run(scores([("simple_integration", entry, echo)])) == [0.0]


def test_an_unknown_dataset_or_setting_is_an_error() -> None:
    entry = {"answer": "1", "metadata": {}}
    assert asyncio.run(scores([("no_such_dataset", entry, "1")])) == ["ValueError"]
    assert asyncio.run(scores([("countdown", entry, "1")], '{"no_such": 1}')) == ["TypeError"]
