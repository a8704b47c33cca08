"""The benchmarks still run. What they measure is not asserted: this machine may be busy."""

import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIELDS = ["name", "value", "unit", "goal", "ok"]


def test_the_collecting_benchmark_prints_a_figure_on_every_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.collect", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(figure) == FIELDS for figure in figures)
    assert all(math.isfinite(figure["value"]) for figure in figures)
    with_goals = [figure["name"].rpartition(".")[2] for figure in figures if figure["goal"]]
    assert with_goals[:3] == ["cpu_over_bare_loop", "peak_memory", "first_rollout"]
    assert with_goals[-2] in {"share_of_ideal", "share_of_cpu_bound"}
    assert len({figure["name"] for figure in figures}) == len(figures)
