"""The aggregate metrics of a collection, from its environment or from the journal."""

import asyncio
import json
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollgym.records import Attempt, Completed, Row, Task
from rollgym.rollouts import aggregate as aggregate_module
from rollgym.rollouts.aggregate import AggregateFile, Clients
from rollgym.servers import Answer
from rollgym.servers.client import ServerClient, connect
from rollgym.servers.exchange import Request
from rollgym.store import open_run
from tests.builders import failed, record, write_journal
from tests.integration.rollouts.commands import REPOSITORY, Workshop

REPEATS = 2


class Asked:
    """A server that notes what it is asked, and answers what it is told to."""

    def __init__(self, answer: Callable[[], Answer]) -> None:
        self.rows: list[list[dict[str, Any]]] = []
        self._answer = answer

    async def handle(self, request: Request, _seconds: float) -> Answer:
        assert request.path == "/aggregate_metrics"
        self.rows.append(json.loads(request.body)["verify_responses"])
        return self._answer()

    def clients(self, name: str) -> ServerClient:
        return connect(self, name)


def tasks() -> list[Task]:
    return [
        Task(
            index,
            Row.of(
                {
                    "responses_create_params": {"input": "x" * 10_000},
                    "agent_ref": {"name": "even" if index % 2 == 0 else "odd"},
                    "topic": index,
                }
            ),
            REPEATS,
        )
        for index in range(4)
    ]


def done(task: int, repeat: int) -> Attempt:
    added = {
        "score": task + repeat,
        "response": {"output": ["y" * 9_999], "usage": {"output_tokens": 5}},
    }
    outcome = Completed(float(task % 2), result=msgspec.Raw(msgspec.json.encode(added)))
    return record(task, repeat, repeats=REPEATS, outcome=outcome)


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """Three tasks with all repeats, one with half of them."""
    directory = tmp_path / "out.run"
    with open_run(directory, tasks()):
        pass
    keys = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (0, 1), (3, 0)]
    attempts = [done(*key) for key in keys]
    write_journal(
        directory / "journal.jsonl", [*attempts, record(3, 1, repeats=2, outcome=failed())]
    )
    return directory


def numbers(
    directory: Path, clients: Clients | None = None, holds: Callable[[int], bool] = lambda _: True
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    path = directory.with_name("out_aggregate_metrics.json")
    notes = asyncio.run(AggregateFile(directory, holds).write(path, clients))
    return {each["agent_ref"]["name"]: each for each in json.loads(path.read_text())}, notes


def test_the_default_metrics_are_those_of_each_agent(run_directory: Path) -> None:
    found, notes = numbers(run_directory)
    assert notes == []
    assert found.keys() == {"even", "odd"}
    assert found["even"]["agent_metrics"]["mean/reward"] == 0.0
    assert found["odd"]["agent_metrics"]["mean/reward"] == 1.0
    assert found["odd"]["agent_metrics"]["mean/output_tokens"] == 5.0
    assert found["odd"]["key_metrics"]["pass@2/accuracy"] == 100.0
    groups = {name: each["group_level_metrics"] for name, each in found.items()}
    assert {g["_ng_task_index"]: g["num_rollouts"] for g in groups["even"]} == {0: 2, 2: 2}
    assert {g["_ng_task_index"]: g["num_rollouts"] for g in groups["odd"]} == {1: 2, 3: 1}


def test_only_the_part_that_is_asked_for_counts(run_directory: Path) -> None:
    found, _ = numbers(run_directory, holds=lambda task: task == 1)
    assert found.keys() == {"odd"}
    assert len(found["odd"]["group_level_metrics"]) == 1


def test_a_server_is_asked_with_the_rows_less_what_was_said(run_directory: Path) -> None:
    asked = Asked(lambda: Answer(200, b'{"agent_metrics":{"a":1},"group_level_metrics":[{"g":1}]}'))
    found, notes = numbers(run_directory, asked.clients)
    assert notes == []
    assert found["even"] == {
        "agent_ref": {"name": "even"},
        "agent_metrics": {"a": 1},
        "key_metrics": {},
        "group_level_metrics": [{"g": 1}],
    }
    (even, odd) = asked.rows
    assert (len(even), len(odd)) == (4, 3)
    assert even[0] == {
        "topic": 0,
        "score": 0,
        "response": {"usage": {"output_tokens": 5}},
        "reward": 0.0,
        "success": False,
        "_ng_task_index": 0,
        "_ng_rollout_index": 0,
    }


def test_an_agent_whose_environment_has_no_numbers_is_not_asked(
    run_directory: Path, tmp_path: Path
) -> None:
    asked = Asked(lambda: Answer(200, b'{"agent_metrics":{"a":1}}'))
    path = tmp_path / "metrics.json"
    numbers_of_run = AggregateFile(run_directory, lambda _: True)
    assert asyncio.run(numbers_of_run.write(path, asked.clients, default_only=["even"])) == []
    assert [len(rows) for rows in asked.rows] == [3]
    found = {each["agent_ref"]["name"]: each for each in json.loads(path.read_text())}
    assert found["odd"]["agent_metrics"] == {"a": 1}
    assert found["even"] == numbers(run_directory)[0]["even"]


def test_numbers_of_any_shape_are_kept_as_the_server_wrote_them(run_directory: Path) -> None:
    body = (
        b'{"agent_metrics":{"n":1,"f":1.0,"t":"x"},"key_metrics":{"n":1},'
        b'"group_level_metrics":[{"t":"x"}]}'
    )
    numbers(run_directory, Asked(lambda: Answer(200, body)).clients)
    text = run_directory.with_name("out_aggregate_metrics.json").read_bytes()
    assert body[1:-1] in text


def test_a_server_that_cannot_answer_leaves_the_default_metrics(run_directory: Path) -> None:
    default = numbers(run_directory)[0]
    for answer in (
        Answer(404, b"no such thing"),
        Answer(200, b"<html>"),
        Answer(200, b'{"agent_metrics":[]}'),
        Answer(200, b'{"key_metrics":null}'),
    ):
        found, notes = numbers(run_directory, Asked(partial(copy, answer)).clients)
        assert found == default
        assert [note.partition(",")[0] for note in notes] == [
            f"{name} did not answer with aggregate metrics" for name in ("even", "odd")
        ]


def test_an_agent_that_is_no_longer_there_leaves_the_usual_numbers(run_directory: Path) -> None:
    def nobody(name: str) -> ServerClient:
        raise KeyError(name)

    found, notes = numbers(run_directory, nobody)
    assert found == numbers(run_directory)[0]
    assert len(notes) == 2


def test_more_than_can_be_sent_is_not_sent(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregate_module, "LARGEST_REQUEST", 300)
    asked = Asked(lambda: Answer(200, b"{}"))
    found, notes = numbers(run_directory, asked.clients)
    assert asked.rows == []
    assert found == numbers(run_directory)[0]
    assert "too large for a request" in notes[0]


def test_a_run_without_rollouts_has_no_numbers(tmp_path: Path) -> None:
    directory = tmp_path / "out.run"
    with open_run(directory, tasks()):
        pass
    asked = Asked(lambda: Answer(200, b"{}"))
    assert numbers(directory, asked.clients) == ({}, [])
    assert asked.rows == []


def test_an_environments_own_numbers_are_in_the_file(workshop: Workshop) -> None:
    ended = workshop.collect(
        "+agent_name=mcqa_simple_agent",
        "+num_repeats=4",
        config="responses_api_models/scripted_model/configs/scripted_model.yaml,"
        "resources_servers/mcqa/configs/mcqa.yaml",
        input_jsonl_fpath=str(REPOSITORY / "resources_servers/mcqa/data/example.jsonl"),
    )
    assert ended.status == 0, ended.stderr
    (metrics,) = json.loads(workshop.path("out_aggregate_metrics.json").read_text())
    assert metrics["agent_ref"] == {"name": "mcqa_simple_agent"}
    assert {"majority@4/accuracy", "pass@4/accuracy", "pass@1[avg-of-4]/no_answer"} <= set(
        metrics["agent_metrics"]
    )
    assert "pass@1[avg-of-4]/no_answer" in metrics["key_metrics"]
    assert len(metrics["group_level_metrics"]) == 5
    mean = ended.headline["avg_reward"]
    assert metrics["key_metrics"]["mean/reward"] == pytest.approx(mean, abs=1e-4)
