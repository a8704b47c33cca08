"""The promises hold in simulated runs with faults, drawn by hypothesis and by seed."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.simulation.__main__ import main
from tests.simulation.campaign import run_seeds
from tests.simulation.plan import draw_plan
from tests.simulation.simulate import plan_of, simulate
from tests.simulation.tally import render, tally

SEEDS = range(40)


@pytest.mark.campaign
@pytest.mark.timeout(600)  # a failing example is shrunk, which takes a while
@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_every_promise_holds_in_any_simulation(random: Random) -> None:
    plan = draw_plan(random)
    note(repr(plan))
    simulate(plan)


def test_every_promise_holds_for_a_few_seeds_that_exercise_them() -> None:
    counts = tally(simulate(plan_of(SEEDS[0])))
    for seed in SEEDS[1:]:
        counts += tally(simulate(plan_of(seed)))
    happened = {heading for heading, _ in counts}
    assert happened >= {"attempts", "cancelled attempts", "deaths", "disk faults", "requests"}
    assert counts["deaths", "of the machine"] > 0
    assert counts["deaths", "of the process"] > 0
    assert counts["lives", "that cut off a torn record"] > 0
    assert counts["lives", "refused for another identity"] > 0
    assert counts["lives", "with a budget for refills"] > 0
    for change in ("pause", "retry failed", "cut", "drop", "policy"):
        assert counts["requests", change] > 0
    assert "attempts: " in render(counts)


@pytest.mark.campaign
def test_every_promise_holds_for_a_range_of_seeds() -> None:
    batch = run_seeds(range(300))
    assert batch.findings == []
    assert batch.seeds == 300


def test_the_command_replays_a_seed_and_runs_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan_of(7) == plan_of(7)
    assert plan_of(7) != plan_of(8)
    assert main(["--replay", "3"]) == 0
    output = capsys.readouterr().out
    assert "life 0" in output
    assert "seed 3: every promise held" in output
    assert main(["--seeds", "3", "--jobs", "1"]) == 0
    output = capsys.readouterr().out
    assert "3 seeds in" in output
    assert "every promise held" in output
