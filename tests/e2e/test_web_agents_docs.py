"""What the guide on web agents shows is so."""

import json
import re
import shlex
from pathlib import Path

import msgspec
import pytest

from rollgym.engine import ExitStatus
from tests.e2e.test_browser_server_docs import CHROMIUM
from tests.e2e.test_docs import (
    DOCS,
    ROOT,
    code_blocks,
    names_in,
    rows_in,
    run_script,
    table,
    text_of,
)
from webgym.rollout.configuration import compose_config
from webgym.rollout.settings import WebRolloutSettings
from webgym.settings import MISSING, SettingKey, keys_of
from webgym.trajectory.metrics import RolloutMetrics

PAGE = "web-agents.md"
CONFIGS = ROOT / "scripts" / "config"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_every_command_of_the_guide_works(tmp_path: Path) -> None:
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")
    printed = run_script(tmp_path, "\n".join(code_blocks(DOCS / PAGE, "bash")))
    assert '"total_trajectories": 6' in printed
    shown = set(re.findall(r"results/[^\s\"]+iteration0(?:\.json)?", text_of(PAGE)))
    assert all((tmp_path / file).exists() for file in shown)
    replies = [each["messages"][-1] for each in rows_in(tmp_path / "results" / "web_sft.jsonl")]
    assert {reply["role"] for reply in replies} == {"assistant"}


def _default(key: SettingKey) -> str:
    if key.default == MISSING:
        return "needed"
    return f"`{key.default if isinstance(key.default, str) else json.dumps(key.default)}`"


def test_the_guide_lists_every_key_with_its_default_and_meaning() -> None:
    rows = table(PAGE, "| key | default | meaning |")
    assert [(names_in(key)[0], default, meaning) for key, default, meaning in rows] == [
        (key.name, _default(key), key.description) for key in keys_of(WebRolloutSettings)
    ]


def test_the_guide_says_where_the_test_configuration_differs() -> None:
    train = compose_config(CONFIGS, "rollout_train", []).values["env_config"]
    test = compose_config(CONFIGS, "rollout_test", []).values["env_config"]
    differing = {key: test[key] for key in test if test[key] != train[key]}
    assert differing.keys() == {"split", "completion_threshold", "max_vllm_sessions"}
    assert "`completion_threshold` is 1, `max_vllm_sessions` 64" in text_of(PAGE)


def test_the_guide_lists_every_metric() -> None:
    listed = [names_in(name)[0] for name, _ in table(PAGE, "| name | meaning |")]
    assert listed == [field.name for field in msgspec.structs.fields(RolloutMetrics)]


def test_the_guide_lists_every_exit_status() -> None:
    assert {int(cells[0]) for cells in table(PAGE, "| status | meaning |")} == {*ExitStatus, 1, 2}


def _commands() -> list[str]:
    blocks = "".join(code_blocks(DOCS / PAGE, "sh") + code_blocks(DOCS / PAGE, "bash"))
    lines = blocks.replace("\\\n", " ").splitlines()
    return [line.partition("rollout.py")[2] for line in lines if "scripts/rollout.py" in line]


@pytest.mark.parametrize("command", _commands())
def test_every_rollout_that_is_shown_has_a_sound_configuration(command: str) -> None:
    words = shlex.split(command)
    name = words[words.index("--config-name") + 1]
    overrides = [word for word in words if "=" in word and not word.startswith("--")]
    WebRolloutSettings.of(compose_config(CONFIGS, name, overrides).values)


def test_the_config_of_ones_own_that_is_shown_works(tmp_path: Path) -> None:
    (shown,) = [block for block in code_blocks(DOCS / PAGE, "yaml") if "mine.yaml" in block]
    (tmp_path / "mine.yaml").write_text(shown)
    settings = WebRolloutSettings.of(compose_config(CONFIGS, "mine", [], tmp_path).values)
    assert settings.env_config.server_size == 16


def test_the_loop_that_is_shown_uses_options_that_there_are() -> None:
    (loop,) = [block for block in code_blocks(DOCS / PAGE, "sh") if "run.sh" in block]
    script = (ROOT / "scripts" / "run.sh").read_text()
    for option in re.findall(r"(--[a-z-]{2,})", loop):
        assert f"{option} " in script
