"""What a pool promises, checked against what trainers saw and what the files say."""

import json
from typing import Any

from tests.simulation.pool.log import Acknowledged, Delivery, PoolLog
from tests.simulation.pool.plan import PoolPlan


class PoolViolationError(AssertionError):
    """A promise was broken."""


def check_pool(plan: PoolPlan, log: PoolLog, files: dict[str, bytes]) -> None:
    """Raises PoolViolationError."""
    records = _completed(files["journal.jsonl"])
    _acknowledged_stay(log)
    _deliveries_are_synced_and_the_same(plan, log, records)
    _nothing_finished_is_lost(log, files)
    _versions_are_named(log)
    _tasks_are_those_of_the_manifest(files)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise PoolViolationError(what)


def _completed(journal: bytes) -> dict[tuple[int, int], list[float]]:
    rewards: dict[tuple[int, int], list[float]] = {}
    for line in journal.splitlines():
        record = json.loads(line)
        if record["outcome"]["status"] == "completed":
            key = (record["task"], record["repeat"])
            rewards.setdefault(key, []).append(record["outcome"]["reward"])
    for key, found in rewards.items():
        _require(len(found) == 1, f"{key} was completed {len(found)} times")
    return rewards


def _acknowledged_stay(log: PoolLog) -> None:
    answered: set[str] = set()
    for event in log.events:
        match event:
            case Acknowledged():
                answered.add(event.id)
            case Delivery():
                known = event.group.id in answered
                _require(not known, f"{event.group.id} was acknowledged and delivered again")


def _deliveries_are_synced_and_the_same(
    plan: PoolPlan, log: PoolLog, records: dict[tuple[int, int], list[float]]
) -> None:
    """What a trainer had is in the journal for ever, in one group, and is the same each time."""
    size = plan.settings.group_size
    before: dict[str, Delivery] = {}
    for delivery in log.deliveries:
        group = delivery.group
        for row in group.rows():
            # A row knows its task only by its reward, which no other rollout has.
            made = log.made[row["reward"]]
            _require(made.task == group.number, f"{group.id} has a rollout of g{made.task}")
            kept = records.get((made.task, made.repeat), [])
            _require(kept == [row["reward"]], f"{group.id} was delivered before it was synced")
        repeats = [log.made[row["reward"]].repeat for row in group.rows()]
        _require(repeats == sorted(set(repeats)), f"{group.id} has rollouts twice")
        _require(group.complete == (len(repeats) == size), f"{group.id} is wrongly complete")
        _require(group.complete == (group.reason is None), f"{group.id} has no reason")
        if earlier := before.get(group.id):
            same = earlier.group.rollouts == group.rollouts and earlier.group.task == group.task
            _require(same, f"{group.id} was another group at another delivery")
            more = group.delivery > earlier.group.delivery
            _require(more, f"delivery {group.delivery} of {group.id} came after a later one")
        before[group.id] = delivery


def _nothing_finished_is_lost(log: PoolLog, files: dict[str, bytes]) -> None:
    """In the last life, every group that was complete before it is done."""
    entries: list[dict[str, Any]] = [json.loads(x) for x in files["deliveries.jsonl"].splitlines()]
    dropped = {entry["group"] for entry in entries if entry["event"] == "dropped"}
    acknowledged = {entry["group"] for entry in entries if entry["event"] == "acknowledged"}
    _require(not dropped & acknowledged, "a group was dropped and acknowledged")
    delivered = {delivery.group.number for delivery in log.deliveries}
    lost = log.finished_before_last - delivered - dropped
    _require(not lost, f"groups {sorted(lost)} were finished and never delivered")
    _require(not delivered & dropped, "a group that a trainer had was dropped")
    answered = {int(name[1:]) for name in log.acknowledged}
    _require(answered <= acknowledged, "an answered acknowledgement is not on disk")


def _versions_are_named(log: PoolLog) -> None:
    for delivery in log.deliveries:
        named = set(delivery.group.versions)
        for row in delivery.group.rows():
            true = set(log.made[row["reward"]].versions)
            _require(true <= named, f"{delivery.group.id} was made by {true} and names {named}")


def _tasks_are_those_of_the_manifest(files: dict[str, bytes]) -> None:
    identity = json.loads(files["manifest.json"])["identity"]["inputs"]
    lines = files["inputs.jsonl"].splitlines()
    _require(identity["tasks"] == len(lines), "the inputs are not those of the manifest")
    numbers = [json.loads(line)["task"] for line in lines]
    _require(numbers == list(range(len(lines))), "the groups are not numbered one by one")
