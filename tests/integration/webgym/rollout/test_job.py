"""Which iteration a command means, and what it says of one that is there. Nothing is rolled out."""

from pathlib import Path
from typing import Any

import pytest

from rollgym.engine import ExitStatus
from rollgym.store import IdentityError, RefusedError, open_run
from tests.integration.webgym.rollout.rank_files import a_trajectory, leave_files
from tests.integration.webgym.tasks.task_rows import some_tasks
from webgym.rollout.gym import AsyncWebGym
from webgym.rollout.iteration import ITERATION_ADVICE, IterationPaths
from webgym.rollout.job import chosen_iteration, roll_out
from webgym.rollout.ranks import Rank
from webgym.rollout.sample import SampleOrigin, share_sample
from webgym.rollout.settings import WebRolloutSettings
from webgym.rollout.web_agents import web_agent
from webgym.tasks.file import TaskFile

NOBODY = "http://127.0.0.1:9"
SIZE = 4


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "CPU_CLUSTER_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def settings(folder: Path, **more: Any) -> WebRolloutSettings:
    """With nobody at the addresses, so that going on is refused."""
    environment = {
        "train_tasks": str(some_tasks(folder / "tasks.jsonl", SIZE)),
        "train_tasks_rollout_size": -1,
        "host_ip": "127.0.0.1",
        "master_port": 9,
        "vllm_server_url": NOBODY,
        "startup_timeout": 0.1,
    }
    judge = {"model": "judge", "base_url": NOBODY, "openai_api_key_env_var": None}
    given = {"save_path": folder, "openai_config": judge, "env_config": environment}
    more["env_config"] = environment | more.get("env_config", {})
    return WebRolloutSettings.of(given | more)


def finish(
    said: WebRolloutSettings, iteration: int = 0, rank: Rank | None = None, failed: int = 0
) -> None:
    """What a rank leaves that has finished the iteration."""
    rank, environment = rank or Rank(), said.env_config
    shared = IterationPaths(said.save_path, "train", iteration)
    paths = shared.of_rank(rank.index, rank.count)
    tasks = TaskFile(Path(environment.train_tasks))
    origin = SampleOrigin(
        split="train",
        iteration=iteration,
        seed=said.seed,
        tasks_sha256=tasks.sha256,
        rank_weights=rank.weights,
    )
    sample = share_sample(shared.sample, origin, tasks)
    agent = web_agent(said, environment)
    gym = AsyncWebGym(env_config={"seed": said.seed})
    config = gym.identity(agent)
    open_run(paths.run, sample.tasks(rank.index), config=config, seed=said.seed).close()
    trajectories = [a_trajectory(task.index) for task in sample.tasks(rank.index)]
    leave_files(paths, trajectories, failed=failed)


def test_a_finished_iteration_is_told_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(settings(tmp_path))
    assert roll_out(settings(tmp_path, iteration=0)) == ExitStatus.COMPLETE
    assert "Iteration 0 is finished. No rollout was run." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "difference"),
    [
        ({"seed": 7}, "seed: 0 in the sample, 7 now"),
        ({"env_config": {"train_tasks_rollout_size": 2}}, "size: -1 in the sample, 2 now"),
        ({"policy_config": {"temperature": 0.5}}, "params.temperature: 1.0 in the run, 0.5 now"),
        ({"context_config": {"window": 9}}, "context_config.window: 4 in the run, 9 now"),
        (
            {"env_config": {"train_difficulty_max_steps": {"easy": 3}}},
            "max_steps.easy: 10 in the run, 3 now",
        ),
    ],
)
def test_a_finished_iteration_of_other_settings_is_refused(
    tmp_path: Path, more: dict[str, Any], difference: str
) -> None:
    finish(settings(tmp_path))
    with pytest.raises(IdentityError) as caught:
        roll_out(settings(tmp_path, iteration=0, **more))
    assert difference in str(caught.value)
    assert "another" in str(caught.value)
    assert "resume" not in str(caught.value)


def test_a_finished_iteration_of_another_model_file_is_refused(tmp_path: Path) -> None:
    def said(name: str, content: bytes) -> WebRolloutSettings:
        path = tmp_path / name
        path.write_bytes(content)
        model = {"embedded": ["model"], "embedded_model": {"model_path": str(path)}}
        return settings(tmp_path, iteration=0, **model)

    finish(said("one.gguf", b"GGUF one"))
    assert roll_out(said("moved.gguf", b"GGUF one")) == ExitStatus.COMPLETE
    with pytest.raises(IdentityError, match=r"embedded_model\.model_sha256"):
        roll_out(said("one.gguf", b"GGUF another"))


def test_failed_rollouts_are_told_with_what_runs_them_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(settings(tmp_path), failed=1)
    assert roll_out(settings(tmp_path, iteration=0)) == ExitStatus.FAILED
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "`iteration=0 retry_failed=true` runs the failed rollouts again."


def test_the_master_is_content_with_a_whole_that_was_put_together_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for index in range(2):
        finish(settings(tmp_path), rank=Rank(index, 2, (1.0, 1.0)))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert roll_out(settings(tmp_path)) == ExitStatus.COMPLETE
    IterationPaths(tmp_path, "train", 0).of_rank(1, 2).trajectories.unlink()
    assert roll_out(settings(tmp_path, iteration=0)) == ExitStatus.COMPLETE
    assert "rank 1 is taken from the earlier aggregated file" in capsys.readouterr().err


def test_what_cannot_change_results_may_change(tmp_path: Path) -> None:
    finish(settings(tmp_path))
    moved = {"server_size": 3, "vllm_server_url": "http://127.0.0.1:10", "operation_timeout": 9}
    assert roll_out(settings(tmp_path, iteration=0, env_config=moved)) == ExitStatus.COMPLETE


def test_a_finished_iteration_of_other_ranks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(settings(tmp_path))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(IdentityError, match=r"rank_weights: \[1\.0\] in the sample, \[1\.0,1\.0\]"):
        roll_out(settings(tmp_path, iteration=0))


def test_a_rank_that_waits_for_the_master_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish(settings(tmp_path), rank=Rank(1, 2, (1.0, 1.0)))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert roll_out(settings(tmp_path)) == ExitStatus.COMPLETE
    said = capsys.readouterr().err
    assert "Iteration 0 is finished on rank 1" in said
    assert "until then, use iteration=1 to start the next iteration on this rank" in said


@pytest.mark.parametrize("retry", ["retry_failed", "retry_omitted"])
def test_running_again_means_the_last_iteration(tmp_path: Path, retry: str) -> None:
    for iteration in (0, 1):
        finish(settings(tmp_path), iteration)
    assert chosen_iteration(settings(tmp_path)) == 2
    assert chosen_iteration(settings(tmp_path, **{retry: True})) == 1
    assert chosen_iteration(settings(tmp_path, iteration=0, **{retry: True})) == 0


def test_where_nothing_was_begun_running_again_means_the_first_iteration(tmp_path: Path) -> None:
    assert chosen_iteration(settings(tmp_path, retry_failed=True)) == 0


def refusal(run: Path) -> str:
    """What is said when the run cannot be opened."""
    with pytest.raises(RefusedError) as caught:
        open_run(run, [], config={}, seed=0, advice=ITERATION_ADVICE)
    said = str(caught.value)
    assert "resume" not in said
    assert "shard" not in said
    return said


def test_what_the_store_refuses_is_told_with_advice_for_this_command(tmp_path: Path) -> None:
    run = IterationPaths(tmp_path, "train", 0).run
    with open_run(run, [], config={}, seed=0):
        assert "as ranks: give each its RANK" in refusal(run)
    with open_run(tmp_path / "other", [], config={}, seed=1):
        assert "continue that run. Otherwise choose another iteration=" in refusal(
            tmp_path / "other"
        )
    (run / "manifest.json").write_text("{")
    assert "from a copy. Otherwise choose another iteration=" in refusal(run)


def test_a_judge_that_is_away_is_told_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=f"the judge at {NOBODY}/v1 cannot be reached"):
        roll_out(settings(tmp_path))
    assert not IterationPaths(tmp_path, "train", 0).sample.exists()
