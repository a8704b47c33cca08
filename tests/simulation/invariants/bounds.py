"""Promise 3: everything is bounded, in number and in time.

Times are virtual, so a bound can be meant exactly. The one allowance is `_slack`: the engine's loop
waits while records are synced one after the other, and each sync takes the disk its time.
"""

import json
from collections import Counter

from rollgym.records import FailureKind
from rollgym.store.disk import SYNC_TIMEOUT
from tests.simulation.controls import Change, longest_pause
from tests.simulation.disk import FaultKind
from tests.simulation.invariants.violation import require
from tests.simulation.log import (
    Asked,
    Cancelled,
    Ended,
    Pulled,
    Started,
    Written,
)
from tests.simulation.plan import Plan
from tests.simulation.records import Key
from tests.simulation.story import Chapter, Ending, Story

PROMISE = 3
OPEN_PER_PLACE = 2
INSTANT = 1e-6


def check_bounds(story: Story) -> None:
    for chapter in story.chapters:
        if not chapter.opened:
            continue
        _few_in_flight(story.plan, chapter)
        _few_open(chapter)
        _source_read_lazily(story.plan, chapter)
        _few_retries(story.plan, chapter)
        _few_attempts(story.plan, chapter)
        _few_same_failures(chapter)
        if chapter.ending is not Ending.DIED:
            _ends_in_time(story.plan, chapter)
            _stops_in_time(story.plan, chapter)
            _stragglers_get_their_grace(story.plan, chapter)


def _few_in_flight(plan: Plan, chapter: Chapter) -> None:
    """A worker counts until it ends, or has been cancelled for as long as the grace."""
    grace, limit = plan.policy.cancel_grace, chapter.life.policy_limit
    running: dict[tuple[Key, int], float | None] = {}
    for event in chapter.events:
        match event:
            case Asked(what=what) if what.startswith(Change.CONCURRENCY):
                limit = int(what.split()[-1]) or chapter.life.policy_limit
            case Started():
                counted = sum(
                    since is None or since + grace > event.at + INSTANT
                    for since in running.values()
                )
                running[event.key, event.attempt] = None
                require(
                    counted < limit,
                    PROMISE,
                    f"life {chapter.number}: {counted + 1} in flight at {event.at:g} s, and the "
                    f"limit is {limit}",
                )
                allowed = event.at + plan.policy.attempt_timeout + INSTANT
                require(
                    event.deadline <= allowed,
                    PROMISE,
                    f"life {chapter.number}: {event} has a deadline after its time",
                )
            case Cancelled():
                running[event.key, event.attempt] = event.at
            case Ended():
                running.pop((event.key, event.attempt), None)


def _few_open(chapter: Chapter) -> None:
    most, opened = OPEN_PER_PLACE * chapter.life.limit, set[Key]()
    for event in chapter.events:
        match event:
            case Started():
                opened.add(event.key)
                require(
                    len(opened) <= most,
                    PROMISE,
                    f"life {chapter.number}: {len(opened)} rollouts open at {event.at:g} s, "
                    f"with a limit of {chapter.life.limit} in flight",
                )
            case Written(record=record) if record.final:
                opened.discard(record.key)


def _source_read_lazily(plan: Plan, chapter: Chapter) -> None:
    """Of the tasks taken from the source no more wait to begin than there are places."""
    resolved = chapter.resolved_before(chapter.current_before)
    repeats = {task.index: task.repeats for task in plan.tasks}
    ahead: set[Key] = set()
    begun: set[Key] = set()  # reopened ones may begin before their task is taken
    for event in chapter.events:
        match event:
            case Pulled(task=task):
                new = {(task, repeat) for repeat in range(repeats[task])} - resolved
                require(
                    len(ahead) < chapter.life.limit + max(repeats.values()),
                    PROMISE,
                    f"life {chapter.number} took task {task} at {event.at:g} s with {len(ahead)} "
                    "rollouts still to begin",
                )
                ahead |= new - begun
            case Started():
                ahead.discard(event.key)
                begun.add(event.key)
            case Written(record=record):
                ahead.discard(record.key)
                begun.add(record.key)


def _few_retries(plan: Plan, chapter: Chapter) -> None:
    most = plan.policy.retry.max_retries
    failed = (each.record for each in chapter.written if each.record.status == "failed")
    retries = sum(not record.final for record in failed)
    require(
        most is None or retries <= most,
        PROMISE,
        f"life {chapter.number} retried {retries} times, and may {most} times",
    )


def _few_attempts(plan: Plan, chapter: Chapter) -> None:
    """An attempt that is to be followed by another leaves some of its rule's budget.

    What was reopened begins with a new budget; what was interrupted goes on with its old one. A cut
    uses up nothing.
    """
    retry = plan.policy.retry
    unresolved = (each for each in chapter.before if each.key not in chapter.current_before)
    spent = Counter(record.key for record in unresolved if not record.cut)
    for written in chapter.written:
        record = written.record
        if record.cut:
            require(
                chapter.life.makes(Change.CUT),
                PROMISE,
                f"life {chapter.number} cut an attempt that no one asked to cut: {record}",
            )
            continue
        spent[record.key] += 1
        if record.final:
            spent[record.key] = 0
        else:
            rule = retry.by_kind.get(FailureKind(record.failure or ""), retry.default)
            require(
                record.retryable and spent[record.key] < rule.max_attempts,
                PROMISE,
                f"life {chapter.number} goes on after {spent[record.key]} attempts, and "
                f"{rule.max_attempts} are allowed: {record}",
            )


def _few_same_failures(chapter: Chapter) -> None:
    """After the same failure many times in a row nothing more starts, and the coverage says so."""
    most, last, count, longest = chapter.life.max_same_failures, "", 0, 0
    for event in chapter.events:
        match event:
            case Written(record=record) if record.final:
                outcome = json.loads(record.line)["outcome"]
                if outcome.get("reason") == "straggler":
                    continue
                detail = outcome["failure"]["detail"] if record.failure else ""
                failure = f"{record.failure}: {detail}" if record.failure else ""
                count = count + 1 if failure and failure == last else bool(failure)
                last, longest = failure, max(longest, count)
            case Started():
                require(
                    not most or longest < most,
                    PROMISE,
                    f"life {chapter.number} started {event.key} after {longest} equal failures in "
                    f"a row, and {most} are allowed",
                )
    stopped = chapter.coverage is not None and chapter.coverage.stopped
    require(
        not stopped or bool(most) or chapter.life.makes(Change.DEADLINE),
        PROMISE,
        f"life {chapter.number} stopped itself without a reason: {stopped}",
    )


def _slack(chapter: Chapter) -> float:
    """What syncing may add to a wait for everything that is open to be recorded."""
    syncs = 2 * (2 * OPEN_PER_PLACE * chapter.life.limit + 2)
    hung = SYNC_TIMEOUT if chapter.fault == FaultKind.HUNG_SYNC else 0.0
    return syncs * chapter.life.sync_seconds + hung + INSTANT


def _closing(plan: Plan, chapter: Chapter) -> float:
    """A collection that ends by an error cancels what is in flight, and waits for it once more."""
    return 0.0 if chapter.ending is Ending.RETURNED else plan.policy.cancel_grace


def _ends_in_time(plan: Plan, chapter: Chapter) -> None:
    """Never idle: at each moment an attempt runs, a retry is waited for, or something is synced."""
    policy, life = plan.policy, chapter.life
    rules = (policy.retry.default, *policy.retry.by_kind.values())
    attempts = max(rule.max_attempts for rule in rules)
    wait = max(policy.retry.max_retry_after, *(rule.backoff.maximum for rule in rules))
    attempt = policy.attempt_timeout + policy.cancel_grace + wait
    again = len(life.changes) + life.refills
    records = len(plan.keys(life.shard)) * attempts * (1 + again)
    most = (
        longest_pause(life.changes)
        + records * (attempt + 2 * life.sync_seconds)
        + policy.completion_grace_period
        + policy.drain_timeout
        + 2 * policy.cancel_grace
        + _slack(chapter)
    )
    require(
        chapter.seconds <= most,
        PROMISE,
        f"life {chapter.number} took {chapter.seconds:g} s, and {most:g} s are enough",
    )


def _stops_in_time(plan: Plan, chapter: Chapter) -> None:
    policy = plan.policy
    allowed = {
        "stop 1": policy.drain_timeout + policy.cancel_grace,
        "stop 2": policy.cancel_grace,
        "the deadline passes": policy.drain_timeout + policy.cancel_grace,
        "cancel": 0.0,
    }
    for event in chapter.events:
        if isinstance(event, Asked) and event.what in allowed:
            most = allowed[event.what] + _closing(plan, chapter) + _slack(chapter)
            took = chapter.seconds - event.at
            require(
                took <= most,
                PROMISE,
                f"life {chapter.number} took {took:g} s to end after {event.what}, and may take "
                f"{most:g} s",
            )


def _stragglers_get_their_grace(plan: Plan, chapter: Chapter) -> None:
    """None is omitted before the grace period is over, and nothing goes on long after it."""
    policy = plan.policy
    reached = _threshold_reached(plan, chapter)
    for event in chapter.written:
        if event.record.reason == "straggler" and (event.record.key, event.record.attempt) not in (
            chapter.ends
        ):
            require(
                reached is not None
                and event.at >= reached + policy.completion_grace_period - INSTANT,
                PROMISE,
                f"life {chapter.number} omitted a straggler at {event.at:g} s, and enough had "
                f"finished at {reached} s: {event.record}",
            )
    stopped = any(isinstance(event, Asked) for event in chapter.events)
    stopped = stopped or bool(chapter.coverage and chapter.coverage.stopped)
    stopped = stopped or bool(chapter.life.refills)  # the threshold is reached later than seen here
    if reached is not None and chapter.ending is Ending.RETURNED and not stopped:
        records = len(plan.keys(chapter.life.shard))
        most = (
            policy.completion_grace_period
            + policy.cancel_grace
            + 2 * records * chapter.life.sync_seconds
            + _slack(chapter)
        )
        require(
            chapter.seconds <= reached + most,
            PROMISE,
            f"life {chapter.number} ended at {chapter.seconds:g} s, and enough had finished at "
            f"{reached:g} s",
        )


def _threshold_reached(plan: Plan, chapter: Chapter) -> float | None:
    """When the completion rule's part of the rollouts had an outcome, at the earliest."""
    threshold = plan.policy.completion_threshold
    keys = plan.keys(chapter.life.shard)
    resolved = chapter.resolved_before(keys)
    if chapter.life.refills:
        resolved = {key for key in keys if key in chapter.current_before}
    if threshold == 1 or not keys:
        return None
    if len(resolved) / len(keys) >= threshold:
        return 0.0
    for event in chapter.acknowledged:
        if event.written.record.final:
            resolved.add(event.written.record.key)
            if len(resolved) / len(keys) >= threshold:
                return event.at
    return None
