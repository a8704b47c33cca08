"""Stored rollouts are scored again, without a model."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollgym.engine import Backoff
from rollgym.servers import verification
from tests.e2e.command import Ended
from tests.integration.rollouts.commands import REPOSITORY, Json, Workshop

SCRIPTED = "responses_api_models/scripted_model/configs/scripted_model.yaml"
UNREACHABLE = "responses_api_models/openai_model/configs/openai_model.yaml"
COUNTER = "example_session_state_mgmt"
NEEDLES = "example_multi_step"

JUDGE = """
from rollgym.servers import ResourcesServer, ResourcesConfig, TaskRow, Verdict


class JudgeConfig(ResourcesConfig):
    generous: bool = False
    broken: bool = False


class JudgeTask(TaskRow):
    initial_count: int


class Judge(ResourcesServer[JudgeTask, None]):
    config: JudgeConfig

    async def verify(self, task, response, state):
        if self.config.broken:
            raise RuntimeError("no verdict today")
        return Verdict(reward=float(self.config.generous), judged_by=self.name)
"""


class Stored(Workshop):
    """A folder in which rollouts were collected with the scripted model."""

    def environment(self, name: str, model: str = SCRIPTED) -> list[str]:
        config = f"resources_servers/{name}/configs/{name}.yaml"
        policy = {"base_url": "http://127.0.0.1:9/v1", "api_key": "none", "model_name": "none"}
        asked = policy if model == UNREACHABLE else {}
        return [
            f"+config_paths=[{model},{config}]",
            *(f"+policy_{key}={value}" for key, value in asked.items()),
        ]

    def make(self, name: str, *overrides: str) -> None:
        source = REPOSITORY / "resources_servers" / name / "data" / "example.jsonl"
        ended = self.run(
            "collect",
            *self.environment(name),
            f"+agent_name={name}_simple_agent",
            f"+input_jsonl_fpath={source}",
            "+output_jsonl_fpath=out.jsonl",
            *overrides,
        )
        assert ended.status == 0, ended.stderr

    def reverify(
        self, name: str, *overrides: str, source: str = "out.jsonl", **options: Any
    ) -> Ended:
        target = options.get("target", "again.jsonl")
        return self.run(
            "reverify",
            *self.environment(name, UNREACHABLE),
            f"+input_jsonl_fpath={source}",
            f"+output_jsonl_fpath={target}",
            *overrides,
        )


@pytest.fixture
def stored(tmp_path: Path, workshop: Workshop) -> Stored:
    """The folder of `workshop`, which cleans up after it."""
    return Stored(tmp_path / "stored")


def rewards(rows: dict[tuple[int, int], Json]) -> dict[tuple[int, int], float]:
    return {key: row["reward"] for key, row in rows.items()}


def told(rows: dict[tuple[int, int], Json]) -> dict[tuple[int, int], Json]:
    """Everything that does not depend on how long things took."""
    return {
        key: {name: value for name, value in row.items() if name != "metadata"}
        for key, row in rows.items()
    }


@pytest.mark.parametrize("name", [NEEDLES, COUNTER])
def test_the_same_verifier_gives_the_same_rows_without_calling_the_model(
    stored: Stored, name: str
) -> None:
    stored.make(name, "+num_repeats=2", "+num_repeats_add_seed=true")
    first = stored.rollouts()
    assert len(set(rewards(first).values())) > 1
    ended = stored.reverify(name)
    assert ended.status == 0, ended.stderr
    again = stored.rollouts("again.jsonl")
    assert told(again) == told(first)
    metadata = again[0, 1]["metadata"]
    assert metadata["tool_calls_made"] == first[0, 1]["metadata"]["tool_calls_made"]


def test_a_file_without_its_run_will_do(stored: Stored) -> None:
    stored.make(COUNTER, "+num_repeats=2", "+num_repeats_add_seed=true")
    first = stored.rollouts()
    stored.path("out.jsonl").rename(stored.path("alone.jsonl"))
    assert stored.reverify(COUNTER, source="alone.jsonl").status == 0
    assert told(stored.rollouts("again.jsonl")) == told(first)


def test_only_some_rollouts_of_a_task_keep_their_numbers_in_every_file(stored: Stored) -> None:
    stored.make(COUNTER, "+num_repeats=3", "+limit=2")
    lines = stored.path("out.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["_ng_rollout_index"] != 0]
    stored.path("some.jsonl").write_text("".join(kept))
    keys = [(task, repeat) for task in (0, 1) for repeat in (1, 2)]
    assert stored.reverify(COUNTER, "+materialize_repeats=true", source="some.jsonl").status == 0
    for name in ("again.jsonl", "again_materialized_inputs.jsonl"):
        rows = stored.rollouts(name)
        assert sorted(rows) == keys
        assert not any("stored" in field for row in rows.values() for field in row)


def test_without_the_tool_calls_the_state_is_another(stored: Stored) -> None:
    stored.make(COUNTER)
    assert stored.reverify(COUNTER, "+replay_tools=false").status == 0
    assert sum(rewards(stored.rollouts()).values()) > 0
    assert sum(rewards(stored.rollouts("again.jsonl")).values()) == 0


def test_what_was_verified_again_can_be_verified_again(stored: Stored) -> None:
    stored.make(COUNTER)
    stored.reverify(COUNTER)
    assert stored.reverify(COUNTER, source="again.jsonl", target="third.jsonl").status == 0
    assert told(stored.rollouts("third.jsonl")) == told(stored.rollouts())


def test_shards_of_it_merge_to_the_same_rows(stored: Stored) -> None:
    stored.make(COUNTER, "+num_repeats=2")
    for part in ("0/2", "1/2"):
        assert stored.reverify(COUNTER, f"+shard={part}").status == 0
    merged = stored.run("merge", "again.run", "--into", "merged.jsonl")
    assert merged.status == 0, merged.stderr
    assert told(stored.rollouts("merged.jsonl")) == told(stored.rollouts())
    (metrics,) = json.loads(stored.path("merged_aggregate_metrics.json").read_text())
    assert metrics["agent_metrics"]["mean/reward"] > 0


# Another verifier.


@pytest.fixture
def judged(stored: Stored) -> Stored:
    """The counter's rollouts, with a judge in the place of their environment."""
    stored.make(COUNTER, "+limit=3")
    plugin = stored.folder / "resources_servers" / "other_judge"
    plugin.mkdir(parents=True)
    (plugin / "app.py").write_text(JUDGE)
    reference = {"type": "resources_servers", "name": "judge"}
    agent = {
        "entrypoint": "app.py",
        "resources_server": reference,
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    servers = {
        "judge": {"resources_servers": {"other_judge": {"entrypoint": "app.py"}}},
        f"{COUNTER}_simple_agent": {"responses_api_agents": {"simple_agent": agent}},
    }
    stored.path("judge.yaml").write_text(json.dumps(servers))
    return stored


def judge(
    judged: Stored, *overrides: str, source: str = "out.jsonl", target: str = "again.jsonl"
) -> Ended:
    return judged.run(
        "reverify",
        f"+config_paths=[{SCRIPTED},judge.yaml]",
        f"+input_jsonl_fpath={source}",
        f"+output_jsonl_fpath={target}",
        *overrides,
    )


def test_another_verifier_gives_new_rewards_and_fields(judged: Stored) -> None:
    generous = "+judge.resources_servers.other_judge.generous=true"
    assert judge(judged).status == 0
    assert set(rewards(judged.rollouts("again.jsonl")).values()) == {0.0}
    refused = judge(judged, generous)
    assert refused.status == 6
    assert "generous: absent in the run, true now" in refused.stderr
    assert judge(judged, generous, "+resume=false").status == 0
    rows = judged.rollouts("again.jsonl")
    assert set(rewards(rows).values()) == {1.0}
    assert {row["judged_by"] for row in rows.values()} == {"judge"}
    assert all("final_count" not in row for row in rows.values())
    assert rows.keys() == judged.rollouts().keys()


def test_a_verifier_that_breaks_gives_failures_and_no_rewards(judged: Stored) -> None:
    first = judged.path("out.jsonl").read_bytes()
    ended = judge(judged, "+judge.resources_servers.other_judge.broken=true", "+max_attempts=1")
    assert ended.status == 3
    assert judged.rows("again.jsonl") == []
    failures = judged.rows("again_failures.jsonl")
    assert [row["_ng_failure_class"] for row in failures] == ["verifier"] * 3
    assert "no verdict today" in failures[0]["failure"]["detail"]
    assert judged.path("out.jsonl").read_bytes() == first


MOODY = """
from pathlib import Path

from resources_servers.example_session_state_mgmt.app import CounterServer


class MoodyCounter(CounterServer):
    async def verify(self, task, response, state):
        if Path("broken").exists() and task.initial_count % 2:
            raise RuntimeError("no verdict today")
        return await super().verify(task, response, state)
"""


def test_rollouts_that_failed_for_want_of_a_verdict_are_finished(
    judged: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the completed ones or alone, and in the state that their tools left."""
    monkeypatch.setattr(verification, "PAUSES", Backoff(0.001, maximum=0.004, jitter=0.0))
    (judged.folder / "resources_servers" / "other_judge" / "app.py").write_text(MOODY)
    judged.path("broken").touch()
    source = REPOSITORY / "resources_servers" / COUNTER / "data" / "example.jsonl"
    collect = [
        "collect",
        f"+config_paths=[{SCRIPTED},judge.yaml]",
        f"+agent_name={COUNTER}_simple_agent",
        f"+input_jsonl_fpath={source}",
        "+output_jsonl_fpath=some.jsonl",
        "+num_repeats=2",
        "+num_repeats_add_seed=true",
    ]
    ended = judged.run(*collect)
    assert ended.status == 3
    assert "`rollgym reverify +input_jsonl_fpath=some_failures.jsonl …`" in ended.stderr
    scored, failed = judged.rollouts("some.jsonl"), judged.rollouts("some_failures.jsonl")
    assert len(scored) + len(failed) == 10
    assert len(failed) >= 2
    for row in failed.values():
        assert (row["final"], row["unverified"]) == (True, True)
        assert row["failure"]["file"].endswith("other_judge/app.py")
        assert row["metadata"]["usage"]["output_tokens"] > 0

    judged.path("broken").unlink()
    assert judge(judged, source="some.jsonl", target="all.jsonl").status == 0
    again = judge(judged, source="some_failures.jsonl", target="rest.jsonl")
    assert f"including {len(failed)} failed rollouts without a verdict" in again.stderr
    everything, rest = judged.rollouts("all.jsonl"), judged.rollouts("rest.jsonl")
    assert told(everything) == told(scored) | told(rest)
    assert judged.run(*collect, "+retry_failed=true").status == 0
    assert told(everything) == told(judged.rollouts("some.jsonl"))
    nothing = judge(judged, source="some_failures.jsonl", target="none.jsonl")
    assert "there is nothing to verify" in nothing.stderr


# What is refused.


def test_a_row_that_is_not_a_rollout_is_named_with_its_line(stored: Stored) -> None:
    stored.make(COUNTER, "+limit=1")
    (row,) = stored.rows("out.jsonl")
    changes: list[tuple[Json, str]] = [
        ({"agent_ref": {"name": "example_session_state_mgmt_simple_agnet"}}, "did you mean"),
        ({"agent_ref": None}, "it has no agent_ref.name, so its environment is unknown"),
        ({"response": None}, "it has no `response`"),
        ({"responses_create_params": None}, "it has no `responses_create_params`"),
        ({"_ng_task_index": -1}, "Expected `int` >= 0"),
        ({"_ng_rollout_index": "first"}, "Expected `int`, got `str`"),
    ]
    for change, problem in changes:
        stored.write("rows.jsonl", [row, {**row, **change}])
        ended = stored.reverify(COUNTER, source="rows.jsonl")
        assert (ended.status, ended.stdout) == (6, "")
        assert "rows.jsonl:2: this is not the row of a rollout: " in ended.stderr
        assert problem in ended.stderr
    assert not stored.path("again.run").exists()


def test_a_file_of_another_run_is_not_taken_for_the_one_beside_it(stored: Stored) -> None:
    stored.make(COUNTER, "+limit=1")
    (row,) = stored.rows("out.jsonl")
    stored.write("out.jsonl", [{**row, "_ng_task_index": 9}])
    ended = stored.reverify(COUNTER)
    assert ended.status == 6
    assert "out.jsonl has rollouts of task 9, which the run beside it does not have" in ended.stderr


def test_a_file_without_rollouts_is_rejected(stored: Stored) -> None:
    stored.path("empty.jsonl").write_text("\n")
    for source, said in (
        ("nothing.jsonl", "there is no file nothing.jsonl"),
        ("empty.jsonl", "empty.jsonl has no rollouts: there is nothing to verify"),
        (".", "the input . is a directory, not a file"),
    ):
        ended = stored.reverify(COUNTER, source=source)
        assert ended.status == 6
        assert said in ended.stderr


def test_other_responses_are_another_run(stored: Stored) -> None:
    """They are not copied into the inputs of the run, so its identity has their digest."""
    stored.make(COUNTER, "+limit=2")
    assert stored.reverify(COUNTER).status == 0
    assert b'"response"' not in stored.path("again.run/inputs.jsonl").read_bytes()
    text = stored.path("out.jsonl").read_bytes()
    stored.path("out.jsonl").write_bytes(text.replace(b'"status":"completed"', b'"status":"x"', 1))
    rejected = stored.reverify(COUNTER)
    assert rejected.status == 6
    assert "stored_rollouts: " in rejected.stderr


def test_rollouts_may_be_in_a_file_of_any_name_but_go_to_one_of_their_own(stored: Stored) -> None:
    stored.make(COUNTER, "+limit=1")
    stored.path("rollouts.txt").write_bytes(stored.path("out.jsonl").read_bytes())
    assert stored.reverify(COUNTER, source="rollouts.txt").status == 0
    refused = stored.reverify(COUNTER, target="out.jsonl")
    assert refused.status == 6
    assert "would write" in refused.stderr


def test_only_the_first_tasks_are_taken_where_a_limit_is_given(stored: Stored) -> None:
    stored.make(COUNTER, "+num_repeats=2", "+num_samples_in_parallel=1")
    assert stored.reverify(COUNTER, "+limit=2").status == 0
    assert sorted(stored.rollouts("again.jsonl")) == [(0, 0), (0, 1), (1, 0), (1, 1)]
