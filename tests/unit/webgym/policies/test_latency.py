import statistics

import pytest

from webgym.policies.server import LONGEST_LATENCY, Latency


def test_a_fixed_latency_is_always_the_same() -> None:
    latency = Latency.read("fixed:0.2")
    assert {latency.seconds(seed, "reply") for seed in range(10)} == {0.2}


def test_a_lognormal_latency_has_its_mean_and_depends_on_the_seed_alone() -> None:
    latency = Latency.read("lognormal:2.0")
    drawn = [latency.seconds(1, "reply", number) for number in range(4_000)]
    assert drawn == [latency.seconds(1, "reply", number) for number in range(4_000)]
    assert drawn[:10] != [latency.seconds(2, "reply", number) for number in range(10)]
    assert statistics.mean(drawn) == pytest.approx(2.0, rel=0.05)


def test_no_latency_is_longer_than_the_bound() -> None:
    latency = Latency.read("lognormal:100:3")
    assert max(latency.seconds(0, number) for number in range(1_000)) == LONGEST_LATENCY


def test_an_invalid_latency_is_rejected() -> None:
    for text in [
        "",
        "2",
        "fixed",
        "fixed:x",
        "fixed:-1",
        "lognormal:1:2:3",
        "gamma:2",
        "fixed:nan",
    ]:
        with pytest.raises(ValueError, match="is not a "):
            Latency.read(text)
