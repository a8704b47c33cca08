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

SEEDS = range(300)


@pytest.mark.timeout(600)  # what fails is shrunk, and that takes a while
@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.randoms(use_true_random=False))
def test_every_promise_holds_in_any_simulation(random: Random) -> None:
    plan = draw_plan(random)
    note(repr(plan))
    simulate(plan)


def test_every_promise_holds_for_a_range_of_seeds() -> None:
    batch = run_seeds(SEEDS)
    assert batch.findings == []
    assert batch.seeds == len(SEEDS)


def test_a_seed_always_means_the_same_plan() -> None:
    assert plan_of(7) == plan_of(7)
    assert plan_of(7) != plan_of(8)


def test_the_campaign_exercises_what_it_claims() -> None:
    counts = tally(simulate(plan_of(0)))
    for seed in range(1, 150):
        counts += tally(simulate(plan_of(seed)))
    happened = {heading for heading, _ in counts}
    assert happened >= {"attempts", "cancelled attempts", "deaths", "disk faults", "requests"}
    assert counts["deaths", "of the machine"] > 0
    assert counts["deaths", "of the process"] > 0
    assert counts["lives", "that cut off a torn record"] > 0
    assert counts["lives", "refused for another identity"] > 0
    assert "attempts: " in render(counts)


def test_a_seed_is_replayed_with_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--replay", "3"]) == 0
    told = capsys.readouterr().out
    assert "life 0" in told
    assert "seed 3: every promise held" in told


def test_the_campaign_says_how_many_seeds_it_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "20", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    assert "20 seeds in" in told
    assert "every promise held" in told
