"""Every dataset of the package, scored in isolated workers as the server does it."""

import asyncio
import json
from collections.abc import Iterable
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


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a dataset leaves a file open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_answers_with_tuples_have_the_full_score_after_the_journey_through_json() -> None:
    entries = {name: next(generate_rows(1, 5, [name]))["entry"] for name in ("arc_agi", "rearc")}
    asked = [(name, entry, entry["answer"]) for name, entry in entries.items()]
    assert asyncio.run(scores(asked)) == [1.0, 1.0]


@pytest.mark.campaign
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


def test_a_dataset_without_a_useful_scorer_is_refused() -> None:
    cases: Iterable[str] = sorted(UNFIT)
    for name in cases:
        with pytest.raises(UnfitDatasetError, match=f"dataset '{name}'"):
            list(generate_rows(1, 5, [name]))


def test_python_does_not_run_and_the_question_is_no_answer(tmp_path: Path) -> None:
    """One set of workers scores everything that is hostile."""
    proof = tmp_path / "proof"
    code = f"__import__('pathlib').Path({str(proof)!r}).touch()"
    entries = [(name, next(generate_rows(1, 5, [name]))["entry"]) for name in EVALUATING]
    in_answers = [(name, entry, code) for name, entry in entries]
    in_rows = [
        ("bitwise_arithmetic", {"answer": "1", "metadata": {"problem": code}}, "[1]"),
        ("number_sorting", {"answer": code, "metadata": {}}, "[1]"),
    ]
    integration = dict(entries)["simple_integration"]
    metadata = integration["metadata"]
    echo = f"Integral({metadata['integrand']}, {metadata['variable']})"
    unknown = ("no_such_dataset", {"answer": "1", "metadata": {}}, "1")
    results = asyncio.run(
        scores([*in_answers, *in_rows, ("simple_integration", integration, echo), unknown])
    )
    assert not proof.exists()
    assert all(isinstance(score, float) and score <= 0.05 for score in results[: len(entries)])
    assert results[-2:] == [0.0, "ValueError"]
