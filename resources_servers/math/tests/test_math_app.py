"""The server as its callers see it, with real workers."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("math_verify")

from resources_servers.math.app import MathConfig, MathServer
from rollgym.records import TaskError, VerifierError
from rollgym.servers import connect

EXAMPLE = Path(__file__).parents[1] / "data" / "example.jsonl"
ROWS = [msgspec.json.decode(line) for line in EXAMPLE.read_bytes().splitlines()]
HOSTILE = [
    r"9^{9^{9^9}}",
    "(" * 3000 + "1" + ")" * 3000,
]


class Serving:
    """A server on a loop of its own, asked over its own contract."""

    def __init__(self, runner: asyncio.Runner, server: MathServer) -> None:
        self.run = runner.run
        self._client = connect(server)

    async def post(self, text: str, **row: Any) -> dict[str, Any]:
        """Verify a text as the response to a row."""
        message = {"type": "message", "role": "assistant", "content": text}
        answer = await self._client.post("/verify", row | {"response": {"output": [message]}})
        assert answer.status == 200, answer.text
        decoded: dict[str, Any] = msgspec.json.decode(answer.body)
        return decoded

    def verify(self, text: str, **row: Any) -> dict[str, Any]:
        return self.run(self.post(text, **row))


@contextmanager
def serving(**settings: Any) -> Iterator[Serving]:
    with asyncio.Runner() as runner:
        server = MathServer("math", MathConfig(**settings))
        runner.run(server.start())
        try:
            yield Serving(runner, server)
        finally:
            runner.run(server.close())


@pytest.fixture(scope="module")
def math() -> Iterator[Serving]:
    with serving(cpu_seconds=1) as math:
        yield math


def test_the_bundled_rows_reward_their_answers_and_no_others(math: Serving) -> None:
    cases: Iterable[dict[str, Any]] = ROWS
    for row in cases:
        right = math.verify(rf"It is \boxed{{{row['expected_answer']}}}.", **row)
        assert (right["reward"], right["success"], right["comparison"]) == (1.0, True, "equal")
        assert right["extracted_answer"] == row["expected_answer"]
        assert right["answer_source"] == "box"
        wrong = math.verify(r"It is \boxed{-77}.", **row)
        assert (wrong["reward"], wrong["success"]) == (0.0, False)
        assert wrong["comparison"] == "different"
        assert wrong["question"] == row["question"]


def test_a_response_without_a_readable_answer_earns_nothing(math: Serving) -> None:
    cases: Iterable[tuple[str, str]] = [
        ("", "no_answer"),
        ("no idea", "unreadable"),
        (r"\boxed{?}", "unreadable"),
    ]
    for text, comparison in cases:
        row = math.verify(text, expected_answer="3")
        assert (row["reward"], row["comparison"], row["timed_out"]) == (0.0, comparison, False)


def test_an_expected_answer_may_be_a_number_in_the_row(math: Serving) -> None:
    assert math.verify("Answer: 2.5", expected_answer=2.5)["reward"] == 1.0
    assert math.verify("Answer: 2", expected_answer=2)["reward"] == 1.0


def test_hostile_answers_cost_no_more_than_their_time_and_never_the_server(math: Serving) -> None:
    async def all_at_once() -> list[dict[str, Any]]:
        texts = [rf"\boxed{{{answer}}}" for answer in HOSTILE]
        return await asyncio.gather(*(math.post(text, expected_answer="3") for text in texts))

    rows = math.run(all_at_once())
    assert [row["reward"] for row in rows] == [0.0] * len(HOSTILE)
    assert rows[0]["timed_out"]
    assert rows[0]["comparison"] == "timed_out"
    assert rows[0]["extracted_answer"] == HOSTILE[0]
    assert math.verify(r"\boxed{3}", expected_answer="3")["reward"] == 1.0


def test_the_event_loop_stays_free_while_an_answer_is_compared(math: Serving) -> None:
    async def count_turns() -> int:
        hostile = asyncio.ensure_future(math.post(rf"\boxed{{{HOSTILE[0]}}}", expected_answer="3"))
        turns = 0
        while not hostile.done():
            await asyncio.sleep(0.01)
            turns += 1
        return turns

    assert math.run(count_turns()) > 10


def test_a_bad_expected_answer_is_the_tasks_failure_and_no_reward(math: Serving) -> None:
    cases: Iterable[tuple[str, str]] = [
        ("???", r"expected_answer '\?\?\?' cannot be read as mathematics"),
        (HOSTILE[0], "cannot be evaluated in 1 s of processor time"),
        ("", "expected_answer: String should have at least 1 character"),
    ]
    for expected, says in cases:
        with pytest.raises(TaskError, match=says) as caught:
            math.verify(r"\boxed{3}", expected_answer=expected)
        assert not caught.value.retryable


def test_no_answer_on_the_clock_is_the_verifiers_failure_and_no_reward() -> None:
    with (
        serving(wall_seconds=1, cpu_seconds=60) as math,
        pytest.raises(VerifierError, match=r"CallTimeoutError: .* no result within 1 s"),
    ):
        math.verify(rf"\boxed{{{HOSTILE[0]}}}", expected_answer="3")


def test_without_the_package_the_server_refuses_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources_servers.math.app.find_spec", lambda _: None)
    with (
        pytest.raises(ModuleNotFoundError, match=r"pip install 'rollgym\[math\]'"),
        serving(),
    ):
        pass
