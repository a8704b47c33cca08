"""A pool keeps its promises in simulated lives, and planted bugs are found."""

import re

import pytest

from rollgym.pool.delivery_log import DeliveryLog
from rollgym.pool.groups import PoolGroup
from rollgym.pool.state import PoolState
from tests.simulation.pool.campaign import run_pool_seeds, simulate_pool
from tests.simulation.pool.promises import PoolViolationError

MOST_SEEDS = 300


def assert_found(seen: str) -> None:
    """Some seed shows a violation in these words."""
    others = []
    for seed in range(MOST_SEEDS):
        try:
            simulate_pool(seed)
        except PoolViolationError as violation:
            if re.search(seen, str(violation)):
                return
            others.append(str(violation))
    pytest.fail(f"{MOST_SEEDS} seeds did not show the planted bug, but {others[:5]}")


def test_a_pool_keeps_its_promises_whichever_side_dies() -> None:
    endings = [ending for seed in range(20) for ending in simulate_pool(seed)]
    assert {"stopped", "died"} <= set(endings)


@pytest.mark.campaign
def test_a_pool_keeps_its_promises_for_a_range_of_seeds() -> None:
    assert run_pool_seeds(range(20, 400)) == []


def test_an_answer_before_the_sync_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sync(_: DeliveryLog) -> None:
        pass

    monkeypatch.setattr(DeliveryLog, "sync", sync)
    assert_found("acknowledged and delivered again|acknowledgement is not on disk|came after")


def test_a_restart_that_forgets_finished_groups_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load = PoolState.load

    def forgetful(self: PoolState, records: object) -> list[PoolGroup]:
        load(self, records)  # type: ignore[arg-type]
        return []

    monkeypatch.setattr(PoolState, "load", forgetful)
    assert_found("were finished and never delivered")
