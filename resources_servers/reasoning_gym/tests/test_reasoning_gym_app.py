"""The server as its callers see it, with real workers."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("reasoning_gym")

from resources_servers.reasoning_gym.app import ReasoningConfig, ReasoningServer
from rollgym.records import TaskError, VerifierError
from rollgym.servers import connect

EXAMPLE = Path(__file__).parents[1] / "data" / "example.jsonl"
ROWS = [msgspec.json.decode(line) for line in EXAMPLE.read_bytes().splitlines()]
COUNTDOWN = next(row for row in ROWS if row["dataset"] == "countdown")
# Its scorer raises for whatever is no product of whole numbers.
FACTORS = {
    "dataset": "prime_factorization",
    "entry": {"question": "12?", "answer": "2 \u00d7 2 \u00d7 3", "metadata": {"number": 12}},
}
ENDLESS = "9**9**9**9"

Verify = Callable[[str, dict[str, Any]], dict[str, Any]]


@contextmanager
def serving(**settings: Any) -> Iterator[Verify]:
    """Verifies a text as the response to a row, over the server's own contract."""
    with asyncio.Runner() as runner:
        server = ReasoningServer("reasoning", ReasoningConfig(workers=1, **settings))
        client = connect(server)

        def verify(text: str, row: dict[str, Any]) -> dict[str, Any]:
            message = {"type": "message", "role": "assistant", "content": text}
            posted = client.post("/verify", row | {"response": {"output": [message]}})
            answer = runner.run(posted)
            assert answer.status == 200, answer.text
            decoded: dict[str, Any] = msgspec.json.decode(answer.body)
            return decoded

        runner.run(server.start())
        try:
            yield verify
        finally:
            runner.run(server.close())


@pytest.fixture(scope="module")
def verify() -> Iterator[Verify]:
    with serving() as verify:
        yield verify


def test_the_bundled_rows_reward_their_answers_and_no_others(verify: Verify) -> None:
    cases: Iterable[dict[str, Any]] = ROWS
    for row in cases:
        right = verify(f"It is <answer>{row['entry']['answer']}</answer>.", row)
        assert (right["reward"], right["success"]) == (1.0, True)
        assert right["extracted_answer"] == row["entry"]["answer"]
        assert right["answer_source"] == "tag"
        assert (right["timed_out"], right["scorer_error"]) == (False, None)
        assert right["entry"] == row["entry"]
        wrong = verify("<answer>No idea.</answer>", row)
        assert wrong["reward"] < 0.5
        assert not wrong["success"]


def test_a_row_of_nemo_gym_is_scored_alike(verify: Verify) -> None:
    entry = COUNTDOWN["entry"]
    metadata = entry["metadata"] | {"source_dataset": "countdown", "source_index": 3}
    row = verify(f"<answer>{entry['answer']}</answer>", {**entry, "metadata": metadata})
    assert (row["reward"], row["metadata"]) == (1.0, metadata)


def test_a_partial_score_is_a_reward_but_no_success(verify: Verify) -> None:
    row = verify("<answer>1 + 1</answer>", COUNTDOWN)
    assert (row["reward"], row["success"], row["partial_credit"]) == (0.05, False, True)
    assert (row["no_answer"], row["empty_answer_score"]) == (False, 0.01)


def test_credit_for_any_text_is_shown_as_what_it_is(verify: Verify) -> None:
    row = verify("I do not know.", COUNTDOWN)
    assert (row["reward"], row["partial_credit"], row["empty_answer_score"]) == (0.01, True, 0.01)
    entry = {"question": "?", "answer": "idea", "metadata": {}}
    row = verify("I do not know.", {"dataset": "spell_backward", "entry": entry})
    assert row["reward"] == 0.25
    assert (row["partial_credit"], row["answer_source"]) == (True, "line")
    assert row["empty_answer_score"] == 0.0


def test_a_response_without_an_answer_earns_nothing(verify: Verify) -> None:
    row = verify("", COUNTDOWN)
    assert (row["reward"], row["success"], row["extracted_answer"]) == (0.0, False, None)
    assert (row["no_answer"], row["partial_credit"], row["empty_answer_score"]) == (
        True,
        False,
        0.01,
    )


def test_numbers_of_any_size_reach_the_scorer(verify: Verify) -> None:
    problem = {"problem": f"{2**100} + 1"}
    entry = {"question": "?", "answer": hex(2**100 + 1), "metadata": problem | {"size": 2**100}}
    row = verify(str(2**100 + 1), {"dataset": "bitwise_arithmetic", "entry": entry})
    assert row["reward"] == 1.0
    assert row["entry"] == entry


def test_an_answer_that_the_scorer_cannot_handle_earns_nothing(verify: Verify) -> None:
    row = verify("<answer>two</answer>", FACTORS)
    assert (row["reward"], row["success"]) == (0.0, False)
    assert row["scorer_error"].startswith("ValueError: invalid literal for int()")


def test_a_bad_row_is_the_tasks_failure_and_no_reward(verify: Verify) -> None:
    cases: Iterable[tuple[dict[str, Any], str]] = [
        ({"dataset": "no_such"}, "'no_such' cannot score its own answer.*not registered"),
        ({"dataset_config": {"no_such": 1}}, "cannot score its own answer.*no_such"),
        ({"entry": {"question": "?", "answer": "two", "metadata": {}}}, "invalid literal for int"),
        ({"entry": {"question": "?"}}, "entry.answer: Field required"),
        ({"dataset": ""}, "dataset: String should have at least 1 character"),
    ]
    for change, says in cases:
        with pytest.raises(TaskError, match=says):
            verify("<answer>two</answer>", FACTORS | change)


def test_an_answer_that_takes_too_long_earns_nothing_unless_the_rows_own_does_too() -> None:
    endless = COUNTDOWN | {"entry": COUNTDOWN["entry"] | {"answer": ENDLESS}}
    with serving(cpu_seconds=1) as verify:
        row = verify(f"<answer>{ENDLESS}</answer>", COUNTDOWN)
        assert (row["reward"], row["timed_out"]) == (0.0, True)
        assert verify(COUNTDOWN["entry"]["answer"], COUNTDOWN)["reward"] == 1.0
        with pytest.raises(TaskError, match="used up its 1 s of processor time"):
            verify(f"<answer>{ENDLESS}</answer>", endless)


def test_no_answer_on_the_clock_is_the_verifiers_failure_and_no_reward() -> None:
    with (
        serving(wall_seconds=0.5, cpu_seconds=60) as verify,
        pytest.raises(VerifierError, match=r"CallTimeoutError: .* no result within 0\.5 s"),
    ):
        verify(f"<answer>{ENDLESS}</answer>", COUNTDOWN)


def test_without_the_package_the_server_refuses_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources_servers.reasoning_gym.app.find_spec", lambda _: None)
    with (
        pytest.raises(ModuleNotFoundError, match=r"pip install 'rollgym\[reasoning-gym\]'"),
        serving(),
    ):
        pass
