"""The simulation of a cluster: real admission, retries and completion in virtual time."""

import msgspec
import pytest

from benchmarks.cluster_settings import Cluster
from benchmarks.cluster_simulation import Simulated, simulate

QUIET = Cluster(
    nodes=4,
    sessions=4,
    rollouts=200,
    endpoint_slots=16,
    endpoint_errors=0.0,
    losses_per_hour=0.0,
    hanging=0.0,
    completion_threshold=1.0,
)


def simulated(**changes: object) -> Simulated:
    return simulate(msgspec.structs.replace(QUIET, **changes))


def test_the_same_settings_give_the_same_run() -> None:
    busy = {"losses_per_hour": 120.0, "hanging": 0.05, "endpoint_errors": 0.01}
    runs = [simulated(**busy) for _ in range(2)]
    once, again = (msgspec.structs.replace(each, cpu=0.0, memory=0.0) for each in runs)
    assert once == again
    assert once.lost_nodes
    assert once != msgspec.structs.replace(simulated(seed=1, **busy), cpu=0.0, memory=0.0)


def test_without_losses_the_slots_are_busy_and_nothing_is_wasted() -> None:
    run = simulated()
    assert run.coverage.completed == 200
    assert run.retries == 0
    assert run.busy_before_tail == pytest.approx(1.0)
    assert run.wasted == {}


def test_a_saturated_endpoint_decides_the_throughput() -> None:
    run = simulated(
        endpoint_slots=4, page_seconds=0.5, steps_sigma=0.0, tokens_sigma=0.1, rollouts=400
    )
    assert run.endpoint_busy > 0.97
    possible = 4 * 25.0 / 250.0 / 12 * 3600
    assert run.completed_per_hour == pytest.approx(possible, rel=0.05)


def test_rollouts_of_a_lost_node_run_again_and_their_time_is_wasted() -> None:
    run = simulated(losses=((100.0, 1), (300.0, 2)))
    assert run.lost_nodes == 2
    assert run.coverage.completed == 200
    assert run.failed_attempts == {"browser": 8}
    assert run.retries == 8
    assert run.wasted["browser"] > 0
    assert run.waited_for_sessions > 0


def test_attempts_that_hang_end_at_their_deadline_or_as_stragglers() -> None:
    run = simulated(hanging=0.1, attempt_timeout=600.0)
    assert run.failed_attempts["timeout"] == run.retries + run.coverage.failed > 5
    assert run.coverage.completed + run.coverage.failed == 200
    omitting = simulated(hanging=0.1, attempt_timeout=6000.0, completion_threshold=0.8)
    assert omitting.coverage.omitted >= omitting.failed_attempts["straggler"] > 0


def test_a_full_queue_of_the_endpoint_rejects_and_hardly_any_rollout_runs_again() -> None:
    run = simulated(endpoint_slots=8, endpoint_queue=4)
    assert run.rejected_requests > 100
    assert run.coverage.completed == 200
    assert run.wasted.get("model_rate_limit", 0.0) < 0.1
