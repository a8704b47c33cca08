"""`scripts/rollout.py` as a program: help, configuration and mistakes."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from rollgym.cli.process import MISUSED
from rollgym.store import RefusedError
from webgym.rollout.command import main
from webgym.rollout.settings import WebRolloutSettings
from webgym.settings import keys_of

SCRIPT = Path(__file__).parents[2] / "scripts" / "rollout.py"
HIDDEN = ("CPU_CLUSTER_TOKEN", "RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS")
TRAIN = ("--config-name", "rollout_train", "save_path=results/x")


def rollout(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in HIDDEN},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_help_lists_every_key(tmp_path: Path) -> None:
    helped = rollout(tmp_path, "--help")
    assert helped.returncode == 0
    for key in keys_of(WebRolloutSettings):
        assert f"  {key.name}=" in helped.stdout
        assert key.description in helped.stdout


def test_the_whole_configuration_can_be_shown(tmp_path: Path) -> None:
    shown = rollout(tmp_path, *TRAIN, "--cfg", "job", "env_config.server_size=3")
    assert shown.returncode == 0
    assert "  server_size: 3\n" in shown.stdout


def test_the_metrics_can_be_imported_from_the_script() -> None:
    names = runpy.run_path(str(SCRIPT), run_name="rollout")
    metrics = names["calculate_rollout_metrics"]([None])
    assert (metrics["crashed_rate"], dict(metrics)["total_trajectories"]) == (1.0, 1)


MISTAKES: list[tuple[list[str], str]] = [
    (["--config-name", "rollout_trian"], "did you mean 'rollout_train'?"),
    ([*TRAIN, "env_config.sever_size=3"], "did you mean env_config.server_size?"),
    ([*TRAIN, "seed=1,2"], "give one value"),
    ([*TRAIN], "task file train.jsonl was not found because data_path is not set"),
    ([*TRAIN, "env_config.train_tasks=sites/train.jsonl"], "embedded=[sites]"),
    ([*TRAIN, "env_config.host_ip=10.0.0.1"], "CPU_CLUSTER_TOKEN is not set"),
    ([*TRAIN, "env_config.multinode_rank_suffix=0/a"], "does not begin with a digit"),
    ([*TRAIN, "embedded=[scripted]"], "model_config.model_type=baseline"),
]


def test_every_mistake_is_explained_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in HIDDEN:
        monkeypatch.delenv(name, raising=False)
    for arguments, words in MISTAKES:
        with pytest.raises(RefusedError) as refused:
            main(arguments, SCRIPT.parent / "config")
        assert words in str(refused.value)
        assert not list(tmp_path.iterdir())


def test_a_mistake_has_its_exit_status_and_no_traceback(tmp_path: Path) -> None:
    arguments, words = MISTAKES[1]
    refused = rollout(tmp_path, *arguments)
    assert refused.returncode == MISUSED
    assert words in refused.stderr
    assert "Traceback" not in refused.stderr


def test_unknown_options_are_wrong_use(tmp_path: Path) -> None:
    assert rollout(tmp_path, "--multirun").returncode == 2
