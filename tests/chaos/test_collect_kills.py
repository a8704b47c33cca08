"""Collections in which processes are killed: of a server, of all servers, of the collector.

What is lost with a process is tried again; what was finished is neither lost nor made twice.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from rollgym.records import FailureKind
from tests.chaos.collect_run import AGENT, ENVIRONMENT, Workspace, troubled
from tests.chaos.collected import journal
from tests.chaos.faulty_environment import FaultyTask, Trouble
from tests.chaos.faulty_mind import Mind, minded
from tests.e2e.command import wait_until
from tests.faulty_model import FaultyModel, in_background
from tests.integration.servers.launch.probe import is_alive
from tests.ports import free_port

PARALLEL = 8
PACE = 0.1
QUIET = 0.5
KILLS = 3
LONGEST = 60.0
HANGING = set(range(PARALLEL, 2 * PARALLEL))
IN_PARALLEL = f"+num_samples_in_parallel={PARALLEL}"
PATIENT = "+max_attempts=8"
"""Enough attempts to outlast the restart of a server on a busy machine."""
OF_THE_ENVIRONMENT = {FailureKind.TOOL, FailureKind.ENVIRONMENT, FailureKind.VERIFIER}
"""How rollouts lost with their environment fail: by the call that is made next."""


@pytest.fixture
def mind() -> Mind:
    return Mind(PACE)


@pytest.fixture
def model(mind: Mind) -> Iterator[FaultyModel]:
    with in_background(minded(mind)) as model:
        yield model


@pytest.mark.campaign
def test_a_server_process_that_dies_in_a_call_is_replaced_and_the_call_made_again(
    tmp_path: Path, model: FaultyModel
) -> None:
    """The servers are the collection's own, one of them in a process of its own."""
    trouble = Trouble(at="tool", fault="dies once")
    rows = [troubled(n, *([trouble] if n == 9 else [])) for n in range(40)]
    work = Workspace(tmp_path, model.base_url, rows)
    work.environment["isolated"] = True
    collected = work.collect(IN_PARALLEL, PATIENT)
    assert collected.coverage["completed"] == len(rows)
    assert collected.kinds[9][0] == FailureKind.TOOL
    assert collected.all_kinds <= OF_THE_ENVIRONMENT
    assert "was killed with SIGKILL" in collected.ended.stderr
    assert collected.seconds < LONGEST


def test_server_processes_killed_one_after_the_other_cost_attempts_and_no_rollout(
    tmp_path: Path, model: FaultyModel
) -> None:
    rows = [troubled(n) for n in range(32)]
    work = Workspace(tmp_path, model.base_url, rows)
    for settings in (work.environment, work.agent):
        settings["isolated"] = True
    with work.serve() as serving:
        serving.wait_until_ready()
        with work.start(IN_PARALLEL, PATIENT, head=serving.head) as collecting:
            for turn, name in enumerate((ENVIRONMENT, AGENT), start=1):
                collecting.wait_for("completed", turn * PARALLEL)
                serving.kill_server(name)
            collected = collecting.wait()
        restarts = [serving.instance(name)["restarts"] for name in (ENVIRONMENT, AGENT)]
    assert collected.coverage["completed"] == len(rows)
    assert FailureKind.AGENT in collected.all_kinds
    assert collected.all_kinds & OF_THE_ENVIRONMENT
    assert restarts == [1, 1]
    assert collected.seconds < LONGEST


@pytest.mark.campaign
def test_a_server_process_that_freezes_costs_attempts_and_no_rollout(
    tmp_path: Path, model: FaultyModel
) -> None:
    rows = [troubled(n) for n in range(60)]
    work = Workspace(tmp_path, model.base_url, rows)
    work.environment["isolated"] = True
    work.agent |= {"seed_timeout": 1.0, "tool_timeout": 1.0, "verify_timeout": 1.0}
    with work.serve() as serving:
        serving.wait_until_ready()
        with work.start(IN_PARALLEL, PATIENT, head=serving.head) as collecting:
            collecting.wait_for("completed", PARALLEL)
            with serving.frozen(ENVIRONMENT):
                time.sleep(1.5)
            collected = collecting.wait()
    assert collected.coverage["completed"] == len(rows)
    assert collected.all_kinds
    assert collected.all_kinds <= OF_THE_ENVIRONMENT
    assert collected.seconds < LONGEST


def test_a_collection_waits_for_all_its_servers_to_come_back(
    tmp_path: Path, model: FaultyModel, mind: Mind
) -> None:
    rows = hanging_in_the_middle(3 * PARALLEL)
    work = Workspace(tmp_path, model.base_url, rows)
    for settings in (work.environment, work.agent, work.model):
        settings["port"] = free_port()
    with work.serve() as first:
        first.wait_until_ready()
        with work.start(IN_PARALLEL, head=first.head) as collecting:
            collecting.wait_until(lambda: all_hanging(model, mind))
            first.kill()
            with work.serve(head=first.head) as second:
                second.wait_until_ready()
                collected = collecting.wait()
    assert collected.coverage["completed"] == len(rows)
    assert collected.kinds == {number: [FailureKind.AGENT] for number in HANGING}
    assert_asked_for_nothing_twice(mind)
    assert collected.seconds < LONGEST


@pytest.mark.campaign
def test_servers_that_stay_away_fail_the_rest_typed_and_it_can_be_run_later(
    tmp_path: Path, model: FaultyModel, mind: Mind
) -> None:
    rows = hanging_in_the_middle(3 * PARALLEL)
    work = Workspace(tmp_path, model.base_url, rows)
    with work.serve() as serving:
        serving.wait_until_ready()
        options = (IN_PARALLEL, "+max_attempts=2", "+server_patience=0.2")
        with work.start(*options, head=serving.head) as collecting:
            collecting.wait_until(lambda: all_hanging(model, mind))
            serving.kill()
            collected = collecting.wait()
    assert collected.rows.keys() == set(range(PARALLEL))
    assert collected.kinds == {n: [FailureKind.AGENT] * 2 for n in range(PARALLEL, len(rows))}
    assert "+retry_failed=true" in collected.ended.lines[-1]
    assert collected.seconds < LONGEST

    with work.serve() as serving:
        serving.wait_until_ready()
        again = work.collect(IN_PARALLEL, "+retry_failed=true", head=serving.head)
    assert again.coverage["completed"] == len(rows)
    assert_asked_for_nothing_twice(mind)


def test_a_collector_that_is_killed_leaves_no_work_behind_and_is_continued(
    tmp_path: Path, model: FaultyModel, mind: Mind
) -> None:
    rows = hanging_in_the_middle(3 * PARALLEL)
    work = Workspace(tmp_path, model.base_url, rows)
    with work.serve() as serving:
        serving.wait_until_ready()
        with work.start(IN_PARALLEL, head=serving.head) as collecting:
            collecting.wait_for("completed", PARALLEL)
            collecting.wait_until(lambda: all_hanging(model, mind))
            collecting.kill()
        wait_until(lambda: model.disconnects == PARALLEL and model.in_flight == 0)
        asked = len(model.requests)
        time.sleep(QUIET)
        assert len(model.requests) == asked
        assert serving.health(ENVIRONMENT)["sessions"] == 0
        finished = {record["task"] for record in journal(tmp_path) if record["final"]}
        assert finished == set(range(PARALLEL))

        collected = work.collect(IN_PARALLEL, head=serving.head)
    assert collected.coverage["completed"] == len(rows)
    assert collected.kinds == {}
    assert_asked_for_nothing_twice(mind)


def test_a_collector_that_is_killed_takes_its_own_servers_along(
    tmp_path: Path, model: FaultyModel
) -> None:
    work = Workspace(tmp_path, model.base_url, [troubled(0, Trouble(at="tool", fault="hangs"))])
    work.environment["isolated"] = True
    with work.start() as collecting:
        collecting.wait_until(lambda: len(model.requests) == 1)
        servers = collecting.children()
        assert servers
        collecting.kill()
    wait_until(lambda: not any(map(is_alive, servers)))


@pytest.mark.campaign
def test_a_collector_killed_again_and_again_makes_every_rollout_exactly_once(
    tmp_path: Path, model: FaultyModel, mind: Mind
) -> None:
    """What a kill tears off in the files is repaired from the journal."""
    random = Random(4)
    rows = [troubled(n) for n in range(100)]
    work = Workspace(tmp_path, model.base_url, rows)
    for _ in range(KILLS):
        before = {record["task"] for record in journal(tmp_path) if record["final"]}
        asked = {number: mind.calls[number] for number in before}
        with work.start(IN_PARALLEL) as collecting:
            collecting.wait_for("completed", len(before) + PARALLEL)
            time.sleep(random.uniform(0, 4 * PACE))
            collecting.kill()
        assert {number: mind.calls[number] for number in before} == asked
    collected = work.collect(IN_PARALLEL)
    assert collected.coverage["completed"] == len(rows)
    assert collected.kinds == {}
    assert sum(calls > 2 for calls in mind.calls.values()) <= KILLS * PARALLEL


def hanging_in_the_middle(count: int) -> list[FaultyTask]:
    """Tasks of which the second lot waits for the model until somebody is killed."""
    trouble = Trouble(at="model", fault="hangs", times=1)
    return [troubled(n, *([trouble] if n in HANGING else [])) for n in range(count)]


def all_hanging(model: FaultyModel, mind: Mind) -> bool:
    return model.in_flight == PARALLEL and mind.calls.keys() >= HANGING


def assert_asked_for_nothing_twice(mind: Mind) -> None:
    """Every rollout had its two turns of the model, besides those that were cut off."""
    assert all(calls == (3 if n in HANGING else 2) for n, calls in mind.calls.items())
