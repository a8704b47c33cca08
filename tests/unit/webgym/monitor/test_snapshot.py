import msgspec

from tests.unit.webgym.monitor.crowd import crowd
from webgym.monitor.snapshot import (
    MARKS,
    OVERDUE_MARK,
    SCHEMA_VERSION,
    MonitorSnapshot,
    TaskState,
)


def test_a_snapshot_is_read_as_it_was_written() -> None:
    snapshot = crowd(50)
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=MonitorSnapshot) == snapshot


def test_the_names_in_the_json_are_those_that_are_documented() -> None:
    written = msgspec.json.decode(msgspec.json.encode(crowd(50)))
    assert written["v"] == SCHEMA_VERSION
    assert set(written["counts"]) == {state.value for state in TaskState}
    assert len(written["cells"]) == 50
    assert {"cell", "task", "repeat", "state", "phase"} <= set(written["live"][0])


def test_blocked_rollouts_do_not_count_for_the_success_rate() -> None:
    counts = {TaskState.SUCCESS: 3, TaskState.FAILURE: 1, TaskState.BLOCKED: 4}
    snapshot = MonitorSnapshot(counts=counts)
    assert snapshot.success_rate == 0.75
    assert snapshot.share(TaskState.BLOCKED) == 0.5
    assert MonitorSnapshot().success_rate is None


def test_every_state_has_a_character_of_its_own() -> None:
    marks = [state.mark for state in TaskState] + [OVERDUE_MARK]
    assert len(set(marks)) == len(marks)
    assert set(marks) == set(MARKS)
