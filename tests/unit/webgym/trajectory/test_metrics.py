"""The formulas of a rollout's metrics, each clause by itself."""

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from rollgym.records import Failure, FailureKind
from tests.trajectories import step, steps_to, trajectory
from webgym.trajectory.metrics import (
    AnyTrajectory,
    RolloutMetrics,
    calculate_rollout_metrics,
)
from webgym.trajectory.plain import failed_to_plain, to_plain
from webgym.trajectory.records import INVALID_URL, UNPARSED, Trajectory

BLOCKED = step("click", blocked=True)
FAILURE = Failure.make(FailureKind.BROWSER, "it was lost")

CRASHES = [
    ("no steps", [], True),
    ("an answer at once", [step("answer")], False),
    ("first action invalid_url, though long enough", [step(INVALID_URL), *steps_to(11)], True),
    ("a later action invalid_url", [step(), step(INVALID_URL), *steps_to(9)], False),
    ("a missing action in the middle", [*steps_to(6), step(None), *steps_to(6)], True),
    ("a missing action at the end", [*steps_to(11), step(None)], True),
    ("a missing action though blocked", [BLOCKED, step(None)], True),
    ("an unparsed reply, then an answer", [step(UNPARSED), step("answer")], False),
    ("9 steps without an answer", steps_to(9, "click"), True),
    ("10 steps without an answer", steps_to(10, "click"), False),
    ("9 steps with an answer", steps_to(9, "answer"), False),
    ("9 steps, answered before the end", [step("answer"), *steps_to(8, "click")], True),
    ("9 steps, blocked", [*steps_to(8, "click"), BLOCKED], False),
    ("1 step, blocked", [BLOCKED], False),
]


def test_a_trajectory_is_crashed_by_each_clause_alone() -> None:
    for steps, crashed in [case[1:] for case in CRASHES]:
        for each in (trajectory(*steps), to_plain(trajectory(*steps))):
            assert calculate_rollout_metrics([each]).crashed == crashed


def test_no_trajectory_at_all_is_crashed() -> None:
    assert calculate_rollout_metrics([None, {}, {"steps": None}]).crashed == 3
    assert calculate_rollout_metrics([None]).crashed_rate == 1.0


SOLVED = trajectory(step(said="four"), step("answer", said="123456", reward=1.0))
MISSED = trajectory(*[step("goback", said="")] * 3, *steps_to(7, "answer", reward=0.0))
PARTLY = trajectory(step("answer", said=None, reward=0.99))
CRASHED = trajectory(step(None, said="many characters", reward=1.0))
BLOCKED_ONE = trajectory(step("goback", said="x" * 1000), step("click", reward=1.0, blocked=True))

FORMULAS: list[tuple[str, list[Trajectory | None], dict[str, float]]] = [
    ("nothing", [], {}),
    (
        "a success",
        [SOLVED],
        {"success_rate": 1.0, "avg_steps": 2.0, "avg_chars_per_response": 5.0},
    ),
    (
        "only the last step's reward counts, and only 1 is a success",
        [PARTLY, trajectory(step(reward=1.0), step("answer", said="", reward=0.0))],
        {"avg_steps": 1.5, "avg_chars_per_response": len("I click.") / 3},
    ),
    (
        "going back is counted in steps",
        [SOLVED, MISSED],
        {
            "success_rate": 0.5,
            "avg_steps": 6.0,
            "avg_chars_per_response": (10 + 7 * len("I click.")) / 12,
            "goback_rate": 3 / 12,
        },
    ),
    ("crashed alone", [CRASHED, None], {"crashed_rate": 1.0}),
    ("blocked alone", [BLOCKED_ONE], {"blocked_rate": 1.0}),
    (
        "crashed and blocked are left out of everything else",
        [SOLVED, CRASHED, BLOCKED_ONE, None],
        {
            "success_rate": 1.0,
            "avg_steps": 2.0,
            "avg_chars_per_response": 5.0,
            "crashed_rate": 2 / 4,
            "blocked_rate": 1 / 2,
        },
    ),
]
RATES = (
    "success_rate",
    "avg_steps",
    "avg_chars_per_response",
    "goback_rate",
    "crashed_rate",
    "blocked_rate",
)


def test_the_rates_are() -> None:
    for _, trajectories, expected in FORMULAS:
        metrics = calculate_rollout_metrics(trajectories)
        assert {name: getattr(metrics, name) for name in RATES} == dict.fromkeys(
            RATES, 0.0
        ) | expected
        assert metrics.total_trajectories == len(trajectories)
        plain = [one and to_plain(one) for one in trajectories]
        assert calculate_rollout_metrics(plain) == metrics


def test_the_counts_say_what_the_rates_are_made_of() -> None:
    metrics = calculate_rollout_metrics(iter([SOLVED, MISSED, CRASHED, BLOCKED_ONE]))
    counts = {
        "total_trajectories": 4,
        "crashed": 1,
        "blocked": 1,
        "successes": 1,
        "steps": 12,
        "characters": 66,
        "gobacks": 3,
    }
    assert msgspec.structs.asdict(metrics).items() >= counts.items()


STUCK = trajectory(*steps_to(3, "goback", reward=0.0), ending="goback")
SHORT = trajectory(*steps_to(3, "click", reward=0.0), ending="max_steps")


def test_the_verdicts_are_counted_beside_and_explain_who_crashed() -> None:
    some: list[AnyTrajectory | None] = [
        SOLVED,
        PARTLY,
        STUCK,
        SHORT,
        failed_to_plain(SOLVED, FAILURE),
        None,
    ]
    metrics = calculate_rollout_metrics(some)
    assert (metrics.solved, metrics.not_solved, metrics.failed) == (1, 3, 2)
    assert (metrics.crashed, metrics.crashed_goback, metrics.crashed_other) == (4, 1, 1)


ANY = st.sampled_from([SOLVED, MISSED, PARTLY, CRASHED, BLOCKED_ONE, None])


@given(st.lists(ANY), st.lists(ANY), st.randoms(use_true_random=False))
def test_metrics_add_up_to_the_same_numbers_in_any_order(
    some: list[Trajectory | None], others: list[Trajectory | None], chance: Random
) -> None:
    together = [*some, *others]
    chance.shuffle(together)
    one, other = calculate_rollout_metrics(some), calculate_rollout_metrics(others)
    expected = calculate_rollout_metrics(together)
    assert one + other == other + one == expected
    assert expected.total_trajectories == len(together)


def test_metrics_survive_json() -> None:
    metrics = calculate_rollout_metrics([SOLVED, MISSED, None])
    assert msgspec.json.decode(msgspec.json.encode(metrics), type=RolloutMetrics) == metrics
