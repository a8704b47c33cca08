"""The benchmarks still run. What they measure is not asserted: this machine may be busy."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.campaign

ROOT = Path(__file__).parents[2]
FIELDS = ["name", "value", "unit", "goal", "ok"]


def figures_of(*command: str) -> list[dict[str, Any]]:
    """What a benchmark prints: a figure on every line, each of another name."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(figure) == FIELDS for figure in figures)
    assert all(math.isfinite(figure["value"]) for figure in figures)
    assert len({figure["name"] for figure in figures}) == len(figures)
    return figures


def test_the_collecting_benchmark_prints_a_figure_on_every_line() -> None:
    figures = figures_of("benchmarks.collect", "--quick")
    with_goals = [figure["name"].rpartition(".")[2] for figure in figures if figure["goal"]]
    assert with_goals[:3] == ["cpu_over_bare_loop", "peak_memory", "first_rollout"]
    assert with_goals[-2] in {"share_of_ideal", "share_of_cpu_bound"}


def test_the_benchmark_of_held_sessions_makes_steps_without_failure() -> None:
    figures = figures_of("benchmarks.browser", "--quick", "--hold", "0.1")
    values = {figure["name"].rpartition(".")[2]: figure["value"] for figure in figures}
    assert values["sessions"] == 4
    assert values["steps"] >= 4
    assert values["failed_steps"] == 0


def test_the_browser_benchmark_compares_without_failure() -> None:
    figures = figures_of("benchmarks.browser", "--quick")
    assert figures[0]["name"] == "browser.4_sessions.cpu_over_playwright"
    assert figures[3] == {
        "name": "browser.4_sessions.rollgym.failed_steps",
        "value": 0,
        "unit": "steps",
        "goal": 0,
        "ok": True,
    }


def test_the_viewer_benchmark_finds_what_was_written() -> None:
    figures = figures_of("benchmarks.viewer", "--quick")
    values = {figure["name"]: figure["value"] for figure in figures}
    assert values["viewer.file.rollouts"] == 600
    assert values["viewer.peak_memory"] > 0
    with_goals = {figure["name"] for figure in figures if figure["goal"]}
    assert {"viewer.first_paint.list", "viewer.first_paint.overview"} <= with_goals


def test_the_benchmark_of_web_rollouts_collects_the_same_in_all_ways() -> None:
    figures = figures_of("benchmarks.web_rollouts", "--quick")
    assert figures[0]["name"] == "web.sigma_1.speedup_over_refill"
    values = {figure["name"]: figure["value"] for figure in figures}
    ours = "web.sigma_1.asynchronous"
    for baseline in ("refill", "lockstep"):
        for figure in ("not_completed", "solved"):
            assert values[f"web.sigma_1.{baseline}.{figure}"] == values[f"{ours}.{figure}"]
    assert values[f"{ours}.not_completed"] == 0
    assert values[f"{ours}.solved"] > 0


def test_the_benchmark_of_exact_tokens_prints_what_they_cost() -> None:
    figures = {each["name"]: each for each in figures_of("benchmarks.tokens", "--quick")}
    assert figures["tokens.stored_over_whole_prompts"]["ok"]
    assert figures["tokens.cpu_over_without"]["goal"]


@pytest.mark.campaign
def test_the_simulation_of_a_cluster_reproduces_a_small_measured_run() -> None:
    figures = {
        each["name"]: each for each in figures_of("benchmarks.cluster", "--measure", "--quick")
    }
    assert figures["cluster.saturated.wall.difference"]["value"] < 0.15
    assert figures["cluster.saturated.failed_attempts.measured"]["value"] > 0
