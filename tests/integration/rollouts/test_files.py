"""The files of a collection are what its journal says, whatever happened to them."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rollgym.engine import (
    AttemptRecorded,
    CollectionStarted,
    Event,
    WholeRecord,
    WorkItem,
    run,
)
from rollgym.engine import collect as collect_rollouts
from rollgym.records import (
    NOTHING,
    Attempt,
    Completed,
    Failed,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    Row,
    Task,
    encode_attempt,
)
from rollgym.rollouts import files as files_module
from rollgym.rollouts.files import PreparedRow, RolloutFiles
from rollgym.rollouts.output_row import failure_row, output_row
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.rows import RepeatSeeds
from rollgym.store import Status, StorageError, open_run
from tests.builders import failed, record, write_journal
from tests.collecting import QUICK_SYNC, policy

TASKS, REPEATS = 4, 2


def tasks() -> Iterator[Task]:
    for index in range(TASKS):
        row = Row.of(
            {"responses_create_params": {"input": f"task {index}"}, "_ng_task_index": index}
        )
        yield Task(index, row, REPEATS)


def done(task: int, repeat: int, reward: float = 1.0) -> Attempt:
    said = {"type": "message", "role": "assistant", "content": f"é {task}/{repeat}"}
    result = msgspec.Raw(msgspec.json.encode({"response": {"output": [said]}, "extra": task}))
    return record(task, repeat, repeats=REPEATS, outcome=Completed(reward, result=result))


def lost(task: int, repeat: int, attempt: int = 1, *, final: bool = False) -> Attempt:
    return record(task, repeat, repeats=REPEATS, attempt=attempt, final=final, outcome=failed())


JOURNAL = [
    done(0, 0),
    lost(1, 0),
    done(0, 1, 0.5),
    done(1, 0),
    lost(2, 1, final=True),
    record(3, 0, repeats=REPEATS, outcome=Omitted(OmitReason.SKIPPED)),
    done(2, 0),
]


class Folder:
    """A run of which some is recorded, and its files."""

    def __init__(self, folder: Path) -> None:
        self.paths = RolloutPaths.of(folder / "out" / "rollouts.jsonl")
        with open_run(self.paths.run, tasks()):
            pass
        self.journal = self.paths.run / "journal.jsonl"
        write_journal(self.journal, JOURNAL)

    def files(self, holds: Sequence[int] = range(TASKS)) -> RolloutFiles:
        return RolloutFiles(self.paths, self.paths.run, lambda task: task in holds)

    def reconcile(self, holds: Sequence[int] = range(TASKS)) -> None:
        with self.files(holds) as files:
            files.reconcile()

    @property
    def output(self) -> bytes:
        return self.paths.output.read_bytes()

    @property
    def failures(self) -> bytes:
        return self.paths.failures.read_bytes()

    def append(self, *attempts: Attempt) -> list[Event]:
        """Record more; what observers are told of it."""
        events: list[Event] = [CollectionStarted(8, 4, 0)]
        with self.journal.open("ab") as journal:
            for attempt in attempts:
                told = msgspec.structs.replace(attempt)
                events.append(AttemptRecorded(told, self.journal, journal.tell(), None))
                journal.write(encode_attempt(attempt))
        return events


def rendered(attempts: Sequence[Attempt]) -> tuple[bytes, bytes]:
    """What the two files should be, made without them."""
    by_index = {task.index: task for task in tasks()}
    output = [
        output_row(by_index[attempt.task], attempt).raw + b"\n"
        for attempt in attempts
        if isinstance(attempt.outcome, Completed)
    ]
    failures = [
        failure_row(by_index[attempt.task], attempt).raw + b"\n"
        for attempt in attempts
        if isinstance(attempt.outcome, Failed)
    ]
    return b"".join(output), b"".join(failures)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


# Put right.


def test_files_are_made_from_the_journal(folder: Folder) -> None:
    folder.reconcile()
    assert (folder.output, folder.failures) == rendered(JOURNAL)
    keys = [json.loads(line)["_ng_task_index"] for line in folder.output.splitlines()]
    assert keys == [0, 0, 1, 2]


EXPECTED_OUTPUT, EXPECTED_FAILURES = rendered(JOURNAL)
DAMAGE = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(EXPECTED_OUTPUT.splitlines(keepends=True)),
    st.sampled_from(EXPECTED_FAILURES.splitlines(keepends=True)),
    st.just(rendered([done(3, 1)])[0]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(
    keep=st.floats(0, 1), damage=DAMAGE, rest=st.floats(0, 1), removed=st.sampled_from([0, 1, 2])
)
def test_after_any_damage_the_files_are_as_if_freshly_made(
    folder: Folder, keep: float, damage: bytes, rest: float, removed: int
) -> None:
    for path, expected in (
        (folder.paths.output, EXPECTED_OUTPUT),
        (folder.paths.failures, EXPECTED_FAILURES),
    ):
        size = len(expected)
        path.write_bytes(expected[: int(keep * size)] + damage + expected[int(rest * size) :])
    if removed:
        folder.paths.derived[removed - 1].unlink()
    folder.reconcile()
    assert (folder.output, folder.failures) == (EXPECTED_OUTPUT, EXPECTED_FAILURES)


def test_a_line_that_was_edited_in_place_is_reconcile(folder: Folder) -> None:
    folder.reconcile()
    folder.paths.output.write_bytes(folder.output.replace(b'"reward":0.5', b'"reward":0.9'))
    folder.reconcile()
    assert folder.output == EXPECTED_OUTPUT


def test_a_rollout_of_which_a_failure_was_run_again_has_one_row(folder: Folder) -> None:
    again = [*JOURNAL, record(2, 1, repeats=2, attempt=2, outcome=done(2, 1).outcome)]
    write_journal(folder.journal, again)
    folder.reconcile()
    output, failures = rendered(again)
    assert (folder.output, folder.failures) == (output, failures)


def test_only_the_part_that_is_asked_for_is_written(folder: Folder) -> None:
    folder.reconcile(holds=[0, 2])
    part = [attempt for attempt in JOURNAL if attempt.task in (0, 2)]
    assert (folder.output, folder.failures) == rendered(part)


def test_of_two_records_of_one_rollout_the_one_that_stands_is_shown(folder: Folder) -> None:
    other = folder.journal.with_name("journal-0-of-2.jsonl")
    write_journal(other, [record(0, 0, repeats=2, attempt=2, outcome=done(0, 0, 0.25).outcome)])
    folder.reconcile()
    shown = {
        (row["_ng_task_index"], row["_ng_rollout_index"]): row["reward"]
        for row in map(json.loads, folder.output.splitlines())
    }
    assert len(folder.output.splitlines()) == 4
    assert shown[0, 0] == 0.25


# Kept up.


def test_what_is_recorded_is_appended_at_once(folder: Folder) -> None:
    with folder.files() as files:
        files.reconcile()
        further = [done(3, 1), lost(3, 0), done(2, 1)]
        events = folder.append(*further)
        files.observe(events[:2])
        assert folder.output == rendered([*JOURNAL, further[0]])[0]
        files.observe(events[2:])
        assert (folder.output, folder.failures) == rendered([*JOURNAL, *further])
        files.finish(missed=False)
        assert (folder.output, folder.failures) == rendered([*JOURNAL, *further])


def test_events_that_were_dropped_are_made_up_for(folder: Folder) -> None:
    with folder.files() as files:
        files.reconcile()
        further = [done(3, 1), lost(3, 0), done(2, 1)]
        files.observe(folder.append(*further)[2:])
        files.finish(missed=True)
        assert (folder.output, folder.failures) == rendered([*JOURNAL, *further])


@pytest.mark.parametrize("what", ["output", "failures"])
def test_a_file_that_was_taken_away_meanwhile_is_made_again(folder: Folder, what: str) -> None:
    with folder.files() as files:
        files.reconcile()
        getattr(folder.paths, what).unlink()
        further = [done(3, 1), lost(3, 0)]
        files.observe(folder.append(*further))
        files.finish(missed=False)
        assert (folder.output, folder.failures) == rendered([*JOURNAL, *further])


def test_rows_that_a_worker_process_prepared_are_those_that_the_journal_gives(
    folder: Folder,
) -> None:
    further = [done(3, 1), lost(3, 0), done(2, 1, 0.5)]
    by_index = {task.index: task for task in tasks()}

    def prepared(event: Event) -> Event:
        if not isinstance(event, AttemptRecorded) or isinstance(event.attempt.outcome, Failed):
            return event
        task, attempt = by_index[event.attempt.task], event.attempt
        row = PreparedRow.of(task, attempt, None).encode()
        whole = WholeRecord(task, without_result(attempt), row)
        return msgspec.structs.replace(event, whole=lambda: whole)

    with folder.files() as files:
        files.reconcile()
        files.observe([*map(prepared, folder.append(*further))])
        assert (folder.output, folder.failures) == rendered([*JOURNAL, *further])


def without_result(attempt: Attempt) -> Attempt:
    outcome = msgspec.structs.replace(attempt.outcome, result=NOTHING)
    return msgspec.structs.replace(attempt, outcome=outcome)


def test_an_observer_that_was_left_behind_writes_nothing_more(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a collection that did not wait for it any longer."""
    begun, go_on = threading.Event(), threading.Event()
    with folder.files() as files:
        files.reconcile()
        further = [done(3, 1), done(2, 1)]
        events = folder.append(*further)
        output_line = files._counted_line

        def slowly(event: AttemptRecorded) -> bytes:
            begun.set()
            assert go_on.wait(30)
            return output_line(event)

        monkeypatch.setattr(files, "_counted_line", slowly)
        left_behind = threading.Thread(target=files.observe, args=(events,))
        left_behind.start()
        assert begun.wait(30)
        monkeypatch.setattr(files, "_counted_line", output_line)
        files.finish(missed=True)
        go_on.set()
        left_behind.join(30)
        assert folder.output == rendered([*JOURNAL, *further])[0]


def test_a_disk_that_never_answers_is_not_waited_for(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_module, "WRITE_TIMEOUT", 0.05)
    refusal = pytest.raises(StorageError, match="the disk did not finish an earlier write")
    with folder.files() as files, files._lock.held(), refusal:
        files.reconcile()


# Inputs as they are sent.


def test_inputs_are_written_out_once_for_each_task_or_each_repeat(folder: Folder) -> None:
    paths, run_directory = folder.paths, folder.paths.run
    with RolloutFiles(paths, run_directory, lambda task: task != 1, seeds=RepeatSeeds(7)) as files:
        files.write_materialized_inputs()
        tasks = [json.loads(line) for line in paths.materialized_inputs.read_text().splitlines()]
        assert [row["_ng_task_index"] for row in tasks] == [0, 2, 3]
        assert not any("_ng_rollout_index" in row for row in tasks)
        files.write_materialized_inputs(repeats=True)
        rows = [json.loads(line) for line in paths.materialized_inputs.read_text().splitlines()]
        assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows] == [
            (task, repeat) for task in (0, 2, 3) for repeat in (0, 1)
        ]
        bodies = [row["responses_create_params"]["metadata"]["extra_body"] for row in rows]
        assert bodies == ['{"seed":7}', '{"seed":8}'] * 3
        whole = paths.materialized_inputs.read_bytes()
        for damage in (b"", whole[:50], whole.replace(b"task 2", b"task X"), whole + b"{}\n"):
            paths.materialized_inputs.write_bytes(damage)
            files.write_materialized_inputs(repeats=True)
            assert paths.materialized_inputs.read_bytes() == whole


# With a collection.


class Forgetful(RolloutFiles):
    """Breaks at the third batch of events, as an observer on a bad day does."""

    batches = 0

    def observe(self, events: Sequence[Event]) -> None:
        self.batches += 1
        if self.batches == 3:
            raise OSError("a bad day")
        super().observe(events)


@pytest.mark.parametrize("kind", [RolloutFiles, Forgetful])
@pytest.mark.filterwarnings("ignore")
def test_files_are_whole_at_the_end_of_a_collection(
    tmp_path: Path, kind: type[RolloutFiles]
) -> None:
    paths = RolloutPaths.of(tmp_path / "rollouts.jsonl")

    async def work(item: WorkItem, attempt: int, _deadline: float) -> Outcome:
        await asyncio.sleep(0.02 * item.task.index)
        if attempt == 1 and item.repeat == 1:
            return failed(FailureKind.TOOL)
        return done(item.task.index, item.repeat).outcome

    with (
        open_run(paths.run, tasks(), sync=QUICK_SYNC, reopen=[Status.FAILED]) as store,
        kind(paths, store.directory, store.inputs.holds) as files,
    ):
        coverage = run(collect_rollouts(store.inputs, work, store, policy(), [files]))
        files.finish(missed=files.name in coverage.dropped_events)
    assert coverage.completed == TASKS * REPEATS
    written = paths.output.read_bytes(), paths.failures.read_bytes()
    assert len(written[0].splitlines()) == TASKS * REPEATS
    assert len(written[1].splitlines()) == TASKS
    with RolloutFiles(paths, paths.run, lambda _: True) as files:
        files.reconcile()
    assert (paths.output.read_bytes(), paths.failures.read_bytes()) == written
