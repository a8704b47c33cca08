import msgspec
import pytest

from tests.unit.webgym.monitor.crowd import crowd
from webgym.monitor.snapshot import (
    MARKS,
    OVERDUE_MARK,
    SCHEMA_VERSION,
    MonitorSnapshot,
    SnapshotError,
    TaskState,
    read_snapshot,
)


def test_a_snapshot_is_read_as_it_was_written() -> None:
    snapshot = crowd(50)
    assert read_snapshot(msgspec.json.encode(snapshot)) == snapshot


def test_the_names_in_the_json_are_those_that_are_documented() -> None:
    written = msgspec.json.decode(msgspec.json.encode(crowd(50)))
    assert written["v"] == SCHEMA_VERSION
    assert set(written["counts"]) == {state.value for state in TaskState}
    assert len(written["cells"]) == 50
    assert {"cell", "task", "repeat", "state", "phase"} <= set(written["live"][0])


def test_a_later_schema_is_refused_and_fields_of_later_ones_are_not() -> None:
    assert read_snapshot(b'{"v": 1, "expected": 3, "novel": []}').expected == 3
    assert read_snapshot(b'{"v": 1, "cells": "+"}').rollouts == ()
    with pytest.raises(SnapshotError, match="upgrade rollgym"):
        read_snapshot(b'{"v": 99}')


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"counts": {"unheard": 1}}', b'{"title": "\xff"}']
)
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError, match="no snapshot"):
        read_snapshot(data)


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
