"""Groups from the draw to the acknowledgement, in one process."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from rollgym.engine import Adaptive, WorkItem, run
from rollgym.pool import DeliveredGroup, OnPolicyChange, RolloutPool, filters
from rollgym.records import Completed, Outcome, TaskError
from rollgym.store import IdentityError, StorageError, read_manifest, read_tasks
from tests.builders import read_json_lines
from tests.integration.pool.pools import PATIENCE, alternate, opened, take, until


def test_a_trainer_iterates_over_groups_of_one_row_each(tmp_path: Path) -> None:
    async def training() -> list[DeliveredGroup]:
        groups = []
        async with asyncio.timeout(PATIENCE), opened(tmp_path, max_groups=7) as pool:
            async for group in pool:
                groups.append(group)
                assert (await pool.acknowledge(group)).acknowledged == [group.id]
            assert pool.status()["groups"]["acknowledged"] == 7
        return groups

    groups = sorted(run(training()), key=lambda group: group.number)
    assert [group.id for group in groups] == [f"g{number}" for number in range(7)]
    assert sorted(group.task for group in groups[:5]) == list(range(5))
    for group in groups:
        assert (group.delivery, group.complete, group.reason) == (1, True, None)
        assert [row["question"] for row in group.rows()] == [group.task, group.task]
        assert [row["reward"] for row in group.rows()] == [0.0, 1.0]
    inputs = list(read_tasks(tmp_path / "inputs.jsonl"))
    assert [task.row.get("question", int) for task in inputs] == [each.task for each in groups]


def test_a_pool_that_is_opened_again_delivers_what_was_not_acknowledged(tmp_path: Path) -> None:
    async def first() -> list[str]:
        async with opened(tmp_path, max_groups=6) as pool:
            groups = await take(pool, 4)
            await pool.acknowledge([groups[0].id, groups[2].id])
            return [group.id for group in groups]

    async def second(taken: list[str]) -> list[DeliveredGroup]:
        async with opened(tmp_path, max_groups=6) as pool:
            groups = await take(pool, 4)
            again = await pool.acknowledge([taken[0], "g5000", "x", groups[0].id])
            assert again.acknowledged == [taken[0], groups[0].id]
            assert again.unknown == ["g5000", "x"]
            return groups

    taken = run(first())
    groups = run(second(taken))
    repeated = {group.id: group.delivery for group in groups if group.id in taken}
    assert repeated == {taken[1]: 2, taken[3]: 2}
    assert len({group.id for group in groups}) == 4
    # Nothing ran twice.
    finals = [line for line in read_json_lines(tmp_path / "journal.jsonl") if line["final"]]
    assert len(finals) == 12


def test_a_group_is_leased_until_it_is_late_or_its_trainer_has_restarted(tmp_path: Path) -> None:
    async def training() -> None:
        async with opened(tmp_path, max_groups=2, lease_seconds=0.3) as pool:
            [one] = await take(pool, 1, trainer="a")
            [two] = await take(pool, 1, trainer="b")
            assert one.id != two.id
            [again] = await pool.next_groups("a", restarted=True)
            assert (again.id, again.delivery) == (one.id, 2)
            late = await take(pool, 2, trainer="c")
            assert {group.id for group in late} == {one.id, two.id}
            assert await pool.next_groups("d") == []

    run(training())


async def one_fails(item: WorkItem, attempt: int, deadline: float) -> Outcome:
    if (item.task.index, item.repeat) == (1, 1):
        raise TaskError("no such answer")
    if item.task.index == 2:
        return Completed(0.5)
    return await alternate(item, attempt, deadline)


def test_filters_count_what_they_drop_with_its_numbers(tmp_path: Path) -> None:
    def own(group: DeliveredGroup) -> bool:
        if group.number == 4:
            raise SystemExit("the user's function ends the process")
        return group.number != 3

    async def training() -> tuple[list[str], dict[str, Any]]:
        async with opened(
            tmp_path,
            one_fails,
            max_groups=6,
            keep_equal_rewards=False,
            deliver_short=False,
            group_filter=own,
        ) as pool:
            groups = await take(pool, 3)
            await until(lambda: sum(pool.status()["groups"]["dropped"].values()) == 3)
            return sorted(group.id for group in groups), pool.status()

    for status_from_disk in (False, True):
        if status_from_disk:
            ids, status = run(_status_of(tmp_path))
        else:
            ids, status = run(training())
            assert ids == ["g0", "g4", "g5"]
        assert status["groups"]["dropped"] == {"short": 1, "equal_rewards": 1, "filter": 1}
        assert status["kept"]["rollouts"] == 6
        assert status["dropped"]["failure_rate"] == pytest.approx(1 / 6, abs=1e-6)
        assert status["dropped"]["mean_reward"] == pytest.approx((0 + 0.5 + 0.5 + 0 + 1) / 5)


def test_a_filter_that_never_returns_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "FILTER_TIMEOUT", 0.02)
    never = threading.Event()

    async def training() -> int:
        async with opened(tmp_path, max_groups=40, group_filter=lambda _: never.wait()) as pool:
            await take(pool, 40)  # more than the threads that everything shares
            return int(pool.status()["filter_errors"])

    try:
        assert run(training()) == 40
    finally:
        never.set()


async def _status_of(directory: Path) -> tuple[list[str], dict[str, Any]]:
    async with opened(directory, max_groups=6) as pool:
        return [], pool.status()


def test_a_short_group_is_delivered_with_its_reason(tmp_path: Path) -> None:
    async def training() -> list[DeliveredGroup]:
        async with opened(tmp_path, one_fails, max_groups=3) as pool:
            return await take(pool, 3)

    groups = {group.id: group for group in run(training())}
    assert groups["g1"].reason == "1 of 2 rollouts have no reward (1 failed: task)"
    assert (groups["g1"].complete, len(groups["g1"].rollouts)) == (False, 1)
    assert groups["g0"].complete


def test_no_group_is_started_while_enough_wait_for_a_trainer(tmp_path: Path) -> None:
    async def training() -> None:
        async with opened(tmp_path, max_undelivered=3) as pool:
            await until(lambda: pool.status()["groups"]["undelivered"] >= 3)
            await until(lambda: pool.status()["groups"]["running"] == 0)
            started = pool.status()["groups"]["started"]
            assert 3 <= started <= 3 + 4
            assert pool.status()["holding"] == f"{started} groups wait for a trainer"
            shown = pool.control.status()
            assert shown is not None
            assert shown.holds == (f"{started} groups wait for a trainer",)
            await take(pool, started - 2)
            await until(lambda: pool.status()["groups"]["started"] > started)

    run(training())


def test_groups_that_wait_are_bounded_by_the_slots_in_use_where_concurrency_adapts(
    tmp_path: Path,
) -> None:
    most = Adaptive(initial=2, maximum=512)

    async def training() -> None:
        async with opened(
            tmp_path, max_undelivered=3, policy_changes={"concurrency": most}
        ) as pool:
            await until(lambda: pool.status()["groups"]["undelivered"] >= 3)
            await until(lambda: pool.status()["groups"]["running"] == 0)
            assert pool.status()["groups"]["started"] < 32

    run(training())


async def slowly(item: WorkItem, attempt: int, deadline: float) -> Outcome:
    await asyncio.sleep(0.01)
    return await alternate(item, attempt, deadline)


def test_groups_that_would_be_too_old_are_not_started_or_not_delivered(tmp_path: Path) -> None:
    async def training(pool: RolloutPool) -> None:
        for version in ("1", "2"):  # two groups for each version
            await pool.acknowledge([group.id for group in await take(pool, 2)])
            await pool.set_policy_version(version)
        await until(lambda: pool.status()["holding"] is not None)
        assert "versions old when it is delivered" in str(pool.status()["holding"])
        for version in ("3", "4"):
            await pool.set_policy_version(version)
        taken = await take(pool, 4)
        assert all(set(group.versions) <= {"3", "4"} for group in taken)
        assert pool.status()["groups"]["dropped"]["stale"] >= 1

    async def collecting() -> None:
        async with opened(tmp_path, slowly, max_undelivered=500, max_staleness=1) as pool:
            await training(pool)

    run(collecting())


def test_the_versions_of_a_group_are_those_while_it_was_made(tmp_path: Path) -> None:
    at_work, may_end = asyncio.Event(), asyncio.Event()

    async def waiting(item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        if item.key.repeat == 0:
            at_work.set()
            await may_end.wait()
        return Completed(float(item.repeat))

    async def first() -> list[str]:
        async with opened(tmp_path, waiting, max_groups=1, first_version="a") as pool:
            await asyncio.wait_for(at_work.wait(), PATIENCE)
            await pool.set_policy_version("b")
            await pool.set_policy_version("b")
            may_end.set()
            return (await take(pool, 1))[0].versions

    async def second() -> tuple[list[str], str]:
        async with opened(tmp_path, waiting, max_groups=1) as pool:
            return (await take(pool, 1))[0].versions, pool.policy_version

    assert run(first()) == ["a", "b"]
    assert run(second()) == (["a", "b"], "b")


def test_a_pool_that_is_continued_with_a_limit_ends_there(tmp_path: Path) -> None:
    async def training(**settings: Any) -> list[int]:
        numbers = []
        async with asyncio.timeout(PATIENCE), opened(tmp_path, **settings) as pool:
            async for group in pool:
                numbers.append(group.number)
                await pool.acknowledge(group)
                if not settings:
                    break
        return numbers

    first = run(training())  # has drawn more than 20
    assert sorted(first + run(training(max_groups=20))) == list(range(20))


def test_a_run_grows_by_groups_and_another_dataset_is_another_run(tmp_path: Path) -> None:
    async def training(groups: int) -> None:
        async with opened(tmp_path) as pool:
            for _ in range(groups):
                [group] = await take(pool, 1)
                await pool.acknowledge(group)

    run(training(70))
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert manifest.identity.inputs.tasks in (128, 192)
    run(training(20))
    with pytest.raises(IdentityError, match="first difference is in line 1"):
        run(_status_of_other_rows(tmp_path))
    with pytest.raises(IdentityError, match=r"pool.group_size: 2 in the run, 3 now"):
        run(_with_larger_groups(tmp_path))


async def _status_of_other_rows(directory: Path) -> None:
    async with opened(directory, rows=6):
        pass


async def _with_larger_groups(directory: Path) -> None:
    async with opened(directory, group_size=3):
        pass


async def fails_once(item: WorkItem, attempt: int, deadline: float) -> Outcome:
    if item.repeat == 1 and attempt == 1:
        raise TaskError("only once")
    return await alternate(item, attempt, deadline)


def test_a_failed_member_is_refilled_alone_before_its_group_is_delivered(tmp_path: Path) -> None:
    async def training() -> list[DeliveredGroup]:
        changes = {"refills": 1}
        async with opened(tmp_path, fails_once, max_groups=5, policy_changes=changes) as pool:
            return await take(pool, 5)

    assert all(group.complete for group in run(training()))
    lines = read_json_lines(tmp_path / "journal.jsonl")
    assert len(lines) == 15  # two members, and one of them again


def test_running_rollouts_are_cut_or_dropped_when_the_policy_changes(tmp_path: Path) -> None:
    async def training(directory: Path, on_change: OnPolicyChange) -> DeliveredGroup:
        at_work = asyncio.Event()

        async def hanging(item: WorkItem, attempt: int, _deadline: float) -> Outcome:
            if attempt == 1 and item.repeat == 1:
                at_work.set()
                await asyncio.sleep(3600)
            return Completed(float(item.repeat))

        async with opened(directory, hanging, max_groups=1, on_policy_change=on_change) as pool:
            await asyncio.wait_for(at_work.wait(), PATIENCE)
            await pool.set_policy_version("1")
            return (await take(pool, 1))[0]

    cut = run(training(tmp_path / "cut", OnPolicyChange.CUT))
    assert (cut.complete, [row["reward"] for row in cut.rows()]) == (True, [0.0, 1.0])
    assert cut.versions == ["0", "1"]
    dropped = run(training(tmp_path / "drop", OnPolicyChange.DROP))
    assert dropped.reason == "1 of 2 rollouts have no reward (1 omitted: stale)"


def test_the_end_of_a_block_that_is_cancelled_cancels_the_rollouts(tmp_path: Path) -> None:
    async def hanging(_item: WorkItem, _attempt: int, _deadline: float) -> Outcome:
        await asyncio.sleep(3600)
        return Completed(1.0)

    async def training() -> None:
        async with asyncio.timeout(0.5), opened(tmp_path, hanging) as pool:
            await until(lambda: pool.status()["slots"]["running"] == 4)

    with pytest.raises(TimeoutError):
        run(training())


def test_an_error_of_the_disk_reaches_the_trainer(tmp_path: Path) -> None:
    async def training() -> None:
        async with opened(tmp_path) as pool:
            [group] = await take(pool, 1)
            (tmp_path / "journal.jsonl").unlink()
            while True:
                await pool.acknowledge(group)
                [group] = await take(pool, 1)

    with pytest.raises(StorageError, match=r"journal\.jsonl"):
        run(training())


def test_a_group_that_lacks_a_refill_when_the_pool_stops_is_finished_by_the_next(
    tmp_path: Path,
) -> None:
    at_work, may_fail = asyncio.Event(), asyncio.Event()

    async def fails_late(item: WorkItem, attempt: int, deadline: float) -> Outcome:
        if item.repeat == 1 and attempt == 1:
            at_work.set()
            await may_fail.wait()
        return await fails_once(item, attempt, deadline)

    async def first() -> list[DeliveredGroup]:
        changes = {"refills": 1}
        async with opened(tmp_path, fails_late, max_groups=1, policy_changes=changes) as pool:
            await asyncio.wait_for(at_work.wait(), PATIENCE)
            pool.stop.request()
            may_fail.set()
            await pool.ended()
            return await pool.next_groups()

    async def second() -> list[DeliveredGroup]:
        changes = {"refills": 1}
        async with opened(tmp_path, fails_late, max_groups=1, policy_changes=changes) as pool:
            return await take(pool, 1)

    assert run(first()) == []
    [group] = run(second())
    assert (group.complete, group.delivery) == (True, 1)
