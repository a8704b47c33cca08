"""Groups around their delivery: rollouts that are run again, new versions, and leases."""

import asyncio
from pathlib import Path

from rollgym.engine import OpenAttempt, WorkItem, run
from rollgym.engine.control import Cut
from rollgym.pool import DeliveredGroup, OnPolicyChange
from rollgym.records import Completed, Outcome, RolloutKey, TaskError
from tests.integration.pool.pools import PATIENCE, opened, take, until


async def fails_first(item: WorkItem, attempt: int, _deadline: float) -> Outcome:
    """The second member of each group fails at its first attempt."""
    await asyncio.sleep(0)
    if item.repeat == 1 and attempt == 1:
        raise TaskError("only once")
    return Completed(float(item.repeat))


def test_a_group_that_a_trainer_had_stays_as_it_was(tmp_path: Path) -> None:
    async def first() -> list[DeliveredGroup]:
        async with opened(tmp_path, fails_first, max_groups=1, lease_seconds=0.2) as pool:
            groups = await take(pool, 1)
            assert await pool.control.retry_failed() == 0
            return groups + await take(pool, 1)

    async def second() -> list[DeliveredGroup]:
        changes = {"refills": 4}
        async with opened(tmp_path, fails_first, max_groups=1, policy_changes=changes) as pool:
            return await take(pool, 1)

    groups = run(first()) + run(second())
    assert [group.delivery for group in groups] == [1, 2, 3]
    assert [len(group.rollouts) for group in groups] == [1, 1, 1]
    assert len({group.reason for group in groups}) == 1


def test_a_group_that_waits_becomes_complete_when_its_failures_run_again(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def fails_until_asked(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        if item.repeat == 1 and attempt == 2:
            await may_end.wait()
        return await fails_first(item, attempt, deadline)

    async def training() -> list[DeliveredGroup]:
        async with opened(tmp_path, fails_until_asked, max_groups=2) as pool:
            await until(lambda: pool.status()["groups"]["undelivered"] == 2)
            assert await pool.control.retry_failed() == 2
            assert await pool.next_groups() == []
            may_end.set()
            return await take(pool, 2)

    assert [(group.complete, group.delivery) for group in run(training())] == [(True, 1)] * 2


def test_what_begins_with_the_newest_version_is_not_cut_for_one_before(tmp_path: Path) -> None:
    """Both versions come before the loop looks, as while it waits for the disk."""

    async def training() -> list[str]:
        cut = OnPolicyChange.CUT
        async with opened(tmp_path, fails_first, max_groups=1, on_policy_change=cut) as pool:
            key, versions = RolloutKey(0, 0), ("0", "1", "2")
            begun = {name: OpenAttempt(key, 1, name, running=True) for name in versions}
            for version in versions[1:]:
                pool.control.set_policy_version(version)
            chosen = []
            while action := pool.control.next_action():
                assert isinstance(action[0], Cut)
                chosen += [name for name in begun if action[0].chosen(begun[name])]
            return chosen

    assert set(run(training())) == {"0", "1"}


def test_trainers_have_no_more_groups_than_they_may(tmp_path: Path) -> None:
    async def training() -> None:
        async with opened(tmp_path, max_leased=3) as pool:
            taken = await take(pool, 3)
            assert await pool.next_groups("other", most=2) == []
            assert pool.status()["holding"] == "trainers have 3 groups and acknowledge none"
            waiting = asyncio.create_task(pool.next_groups("other", most=2, wait=PATIENCE))
            await until(lambda: pool.status()["trainers_waiting"] == 1)
            await pool.acknowledge(taken[0])
            [more] = await waiting
            assert more.id not in {group.id for group in taken}
            assert pool.status()["groups"]["leased"] == 3

    run(training())
