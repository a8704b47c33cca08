"""Collections in which almost everything goes wrong at once, and at length."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from rollgym.records import FailureKind
from tests.chaos.collect_run import Workspace, troubled
from tests.chaos.faulty_environment import FaultyTask, Place, Trouble
from tests.chaos.faulty_mind import Mind, minded
from tests.e2e.command import wait_until
from tests.faulty_model import in_background

ROLLOUTS = 200
SHARE = 0.1
LONGEST = 60.0
MOST_MEMORY = 250_000_000
MOST_TEXT = 12_000
"""Bytes that one rollout may leave in any one file, and a whole collection on the terminal."""

MODEL = ("429", "500", "hangs", "resets", "malformed", "truncated")
ENVIRONMENT: dict[Place, tuple[str, ...]] = {
    "seed": ("raises",),
    "tool": ("hangs", "breaks"),
    "verify": ("raises", "gives NaN", "answers 500"),
}
CALLS = {"model": 60, "seed": 5, "tool": 5, "verify": 5}
"""More calls than a rollout can come to in all its attempts."""


def weather(random: Random, place: Place, faults: Sequence[str]) -> Iterator[Trouble]:
    """What each call of a place meets: every fault with the same small chance, or nothing."""
    for call in range(CALLS[place]):
        drawn = int(random.random() / SHARE)
        if drawn < len(faults):
            yield Trouble(at=place, fault=faults[drawn], times=1, after=call)


def stormy(number: int, seed: int) -> FaultyTask:
    random = Random(f"{seed}/{number}")
    places: dict[Place, tuple[str, ...]] = {"model": MODEL, **ENVIRONMENT}
    met = [each for place, faults in places.items() for each in weather(random, place, faults)]
    return troubled(number, *met)


@pytest.mark.campaign
def test_a_storm_of_every_fault_at_random_leaves_every_rollout_accounted_for(
    tmp_path: Path,
) -> None:
    mind = Mind()
    with in_background(minded(mind)) as model:
        rows = [stormy(number, seed=3) for number in range(ROLLOUTS)]
        work = Workspace(tmp_path, model.base_url, rows)
        work.pool = {
            "request_timeout": 0.5,
            "backoff_initial": 0.01,
            "backoff_maximum": 0.1,
            "rest_initial": 0.02,
            "rest_maximum": 0.05,
        }
        work.agent |= {"tool_timeout": 0.5}
        collected = work.collect("+num_samples_in_parallel=100", "+max_attempts=3")
        wait_until(lambda: model.in_flight == 0)
    told = collected.coverage
    assert told["completed"] + told["failed"] == ROLLOUTS
    assert told["completed"] > ROLLOUTS / 2
    assert told["failed"] > 0
    assert collected.all_kinds == {
        FailureKind.MODEL_RATE_LIMIT,
        FailureKind.MODEL_UNAVAILABLE,
        FailureKind.MODEL_MALFORMED,
        FailureKind.ENVIRONMENT,
        FailureKind.TOOL,
        FailureKind.VERIFIER,
    }
    assert all(mind.played[fault] > ROLLOUTS * SHARE for fault in MODEL)
    assert max(map(len, collected.failures.values())) <= 3
    assert collected.seconds < LONGEST


def test_a_storm_of_long_errors_leaves_short_ones(tmp_path: Path) -> None:
    """Errors of more than a megabyte each, from the model, the tool and the verifier."""
    troubles = [
        Trouble(at="model", fault="500 with a novel"),
        Trouble(at="model", fault="a novel"),
        Trouble(at="verify", fault="raises a novel"),
        Trouble(at="tool", fault="raises a novel"),
    ]
    rows = [troubled(number, troubles[number % len(troubles)]) for number in range(ROLLOUTS)]
    with in_background(minded(Mind())) as model:
        work = Workspace(tmp_path, model.base_url, rows)
        work.pool["max_retries"] = 0
        # By chance, many that fail alike may end in a row.
        collected = work.collect(
            "+max_attempts=1", "+num_samples_in_parallel=32", "+max_same_failures=0"
        )
    assert collected.coverage["completed"] == 0
    assert collected.all_kinds == {
        FailureKind.TOOL,
        FailureKind.MODEL_UNAVAILABLE,
        FailureKind.MODEL_MALFORMED,
        FailureKind.VERIFIER,
    }
    assert collected.peak_memory < MOST_MEMORY
    left = {path.name: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert {name: size for name, size in left.items() if size > ROLLOUTS * MOST_TEXT} == {}
    assert len(collected.ended.stdout) < MOST_TEXT
    assert collected.seconds < LONGEST
