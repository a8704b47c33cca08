"""`scripts/rollout.py` as a program: help, configuration and mistakes."""

import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rollgym.cli.process import MISUSED
from rollgym.engine import ExitStatus
from rollgym.store import RefusedError
from webgym.rollout.command import main, run_arguments
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
    (["--config-name", "rollout_trian"], "did you mean rollout_train?"),
    ([*TRAIN, "env_config.sever_size=3"], "did you mean env_config.server_size?"),
    ([*TRAIN, "seed=1,2"], "give one value"),
    ([*TRAIN, "ray_address=auto"], "ray_address: must be null without launcher=ray, not 'auto'"),
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
    assert rollout(tmp_path, "--multiruns").returncode == 2


def test_a_sweep_runs_every_job_also_after_one_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[tuple[str, int]] = []

    def note(settings: WebRolloutSettings) -> int:
        seen.append((str(settings.save_path), settings.seed))
        if settings.seed == 1:
            raise RefusedError("not this one")
        return 0

    monkeypatch.setattr("webgym.rollout.job.roll_out", note)
    sweep = ["--multirun", *TRAIN[:2], "save_path=x/${hydra:job.num}", "seed=1,2", "~openai_config"]
    assert main(sweep, SCRIPT.parent / "config") == ExitStatus.REFUSED
    assert seen == [("x/0", 1), ("x/1", 2)]
    printed = capsys.readouterr()
    assert ("not this one" in printed.err, printed.out) == (True, "")


def test_the_options_of_hydra_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.yaml").write_text("defaults: [rollout_test, _self_]\nseed: 7\n")
    cases: list[tuple[list[str], str]] = [
        (["--cfg", "all"], "output_subdir: null"),
        (["--config-path", str(tmp_path / "own"), "-cn", "mine", "--cfg", "job"], "seed: 7"),
        (["-cd", "own", "-cn", "mine", "--cfg", "job", "--package", "seed"], "7"),
        (["-cn", "rollout_test", "--hydra-help"], "Hydra"),
    ]
    for arguments, words in cases:
        assert main(arguments, SCRIPT.parent / "config") == 0
        assert words in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
    assert "Config search path" in rollout(tmp_path, "--info", "searchpath").stdout


def test_the_same_command_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_arguments(["-cn", "rollout_train", "--cfg", "job", "-p", "seed"]) == 0
    assert "0" in capsys.readouterr().out
    packaging = tomllib.loads((SCRIPT.parents[1] / "pyproject.toml").read_text())
    included = packaging["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["scripts/config"] == "webgym/rollout/config"
