"""Opening runs: identity, locks, shards, resuming."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

import pytest

from rollgym.records import (
    Attempt,
    Completed,
    FailureKind,
    OmitReason,
    Omitted,
    RecordState,
    Row,
    Task,
)
from rollgym.store import (
    Disk,
    IdentityError,
    InputsError,
    ManifestError,
    RunBusyError,
    Shard,
    Status,
    StorageDeniedError,
    StorageError,
    open_run,
    read_manifest,
)
from rollgym.store.inputs import InputsDraft
from tests.builders import failed, make_run, record, tasks, write_journal


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def test_a_new_run_has_manifest_inputs_and_journal_and_nothing_left_over(tmp_path: Path) -> None:
    with make_run(tmp_path / "a" / "run", 3, 2, config={"temperature": 0.7}, seed=5) as run:
        assert (run.inputs.expected, run.inputs.groups, run.seed) == (6, 3, 5)
        assert [task.row.raw for task in run.inputs] == [b'{"question":%d}' % i for i in range(3)]
    visible = {p.name for p in (tmp_path / "a" / "run").iterdir() if not p.name.startswith(".")}
    assert visible == {"manifest.json", "inputs.jsonl", "journal.jsonl"}
    assert not list((tmp_path / "a" / "run").glob(".inputs-*"))


def test_rows_reach_the_worker_byte_for_byte(tmp_path: Path) -> None:
    raw = b'{"z": 1.0,  "unknown": {"deep": [1e400, 1.50]}, "text": "\\u00e9\xc3\xa9"}'
    with open_run(tmp_path, [Task(3, Row.parse(raw))]) as run:
        (task,) = run.inputs
    assert (task.index, task.row.raw) == (3, raw)


def test_another_identity_is_refused_with_the_difference_named(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"config": {"temperature": 1.0}}, "temperature: 0.7 in the run, 1.0 now"),
        ({"config": {"temperature": 0.7, "top_p": 1}}, "top_p: absent in the run, 1 now"),
        ({"config": {}}, "temperature: 0.7 in the run, absent now"),
        ({"seed": 6}, "seed: 5 in the run, 6 now"),
        ({"count": 3}, "inputs: 4 tasks, 8 rollouts"),
        ({"count": 3}, "but not fewer; the first difference is in line 4 of"),
        ({"count": 9, "repeats": 1}, "but not fewer; the first difference is in line 1 of"),
    ]
    for number, (change, difference) in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        asked: dict[str, Any] = {"config": {"temperature": 0.7}, "seed": 5, "repeats": 2}
        make_run(directory, **asked).close()
        before = files_of(directory)
        with pytest.raises(IdentityError) as refused:
            make_run(directory, **(asked | change))
        assert difference in str(refused.value)
        assert "Nothing was changed" in str(refused.value)
        after = files_of(directory)
        assert {k: v for k, v in after.items() if not k.endswith(".lock")} == {
            k: v for k, v in before.items() if not k.endswith(".lock")
        }


def test_credentials_addresses_and_concurrency_may_change(tmp_path: Path) -> None:
    first = {"model": {"name": "m", "api_key": "secret-1", "base_url": "http://a/v1"}, "workers": 4}
    second = {"model": {"name": "m", "api_key": "secret-2", "base_url": "http://b/v1"}}
    make_run(tmp_path, config=first).close()
    make_run(tmp_path, config=second).close()
    assert b"secret" not in (tmp_path / "manifest.json").read_bytes()


def test_a_forced_new_run_keeps_the_old_one_beside_it(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    for seed in range(3):
        with make_run(directory, seed=seed, force_new_run=True) as run:
            run.append(record(seed))
    for name, seed in (("run.previous-1", 0), ("run.previous-2", 1), ("run", 2)):
        manifest = read_manifest(tmp_path / name)
        assert manifest is not None
        assert manifest.identity.seed == seed
        assert b'"task":%d' % seed in (tmp_path / name / "journal.jsonl").read_bytes()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    for seed in range(2):
        make_run(tmp_path / "link", seed=seed, force_new_run=True).close()
    assert (tmp_path / "link").is_symlink()
    assert read_manifest(tmp_path / "real.previous-1") is not None


def test_a_forced_new_run_does_not_displace_a_running_one(tmp_path: Path) -> None:
    with make_run(tmp_path / "run"), pytest.raises(RunBusyError):
        make_run(tmp_path / "run", seed=9, force_new_run=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_forced_new_run_gets_past_a_broken_manifest(tmp_path: Path) -> None:
    cases: list[bytes] = [b"", b"{", b'{"schema_version": 1}']
    for number, leftover in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        make_run(directory / "run").close()
        (directory / "run" / "manifest.json").write_bytes(leftover)
        with pytest.raises(ManifestError, match="force_new_run"):
            make_run(directory / "run")
        make_run(directory / "run", force_new_run=True).close()
        assert (directory / "run.previous-1" / "manifest.json").read_bytes() == leftover


def test_inputs_changed_after_the_run_was_made_are_refused_by_line(tmp_path: Path) -> None:
    make_run(tmp_path).close()
    inputs = tmp_path / "inputs.jsonl"
    original = inputs.read_bytes()
    inputs.write_bytes(original.replace(b'"question":2', b'"question":"other"'))
    with pytest.raises(InputsError, match=r"inputs\.jsonl:3: this line was changed"):
        make_run(tmp_path)
    inputs.unlink()
    make_run(tmp_path).close()
    assert inputs.read_bytes() == original


def test_drafts_of_killed_processes_are_removed_and_those_of_living_ones_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / ".inputs-left-by-a-kill.tmp").write_bytes(b"half")
    living = InputsDraft(tmp_path, Disk())
    make_run(tmp_path).close()
    assert list(tmp_path.glob(".inputs-*")) == [living.path]
    living.close()


def test_a_forced_new_run_works_in_the_present_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    for seed in range(2):
        monkeypatch.chdir(tmp_path / "run")
        make_run(Path(), seed=seed, force_new_run=True).close()
    for name in ("run", "run.previous-1"):
        assert (tmp_path / name / "manifest.json").exists()
        assert (tmp_path / name / "journal.jsonl").exists()


def test_journals_without_a_manifest_are_not_taken_over(tmp_path: Path) -> None:
    write_journal(tmp_path / "journal.jsonl", [record()])
    with pytest.raises(ManifestError, match="journals without a manifest"):
        make_run(tmp_path)


def test_a_manifest_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    cases: list[tuple[bytes | None, str]] = [
        (b"{", "is not the manifest of a run"),
        (None, "schema version 99.*Upgrade"),
    ]
    for number, (content, message) in enumerate(cases):
        directory = tmp_path / str(number)
        directory.mkdir()
        make_run(directory).close()
        path = directory / "manifest.json"
        later = path.read_bytes().replace(b'"schema_version": 1', b'"schema_version": 99')
        path.write_bytes(later if content is None else content)
        with pytest.raises(ManifestError, match=message):
            make_run(directory)


def test_two_tasks_with_one_index_are_refused(tmp_path: Path) -> None:
    twice = [*tasks(3), Task(1, Row.of({}))]
    with pytest.raises(InputsError, match="task index 1 occurs a second time at task 4"):
        open_run(tmp_path, twice)


HOLDER = """
import sys, time
from pathlib import Path
from rollgym.store import Shard
from tests.builders import make_run
shard = Shard.parse(sys.argv[2])
run = make_run(Path(sys.argv[1]), shard=shard)
print("open", flush=True)
time.sleep(3600)
"""


class Holder:
    """Another process that has the run open."""

    def __init__(self, directory: Path, shard: str = "0/1") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, directory, shard], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "open\n"

    def __enter__(self) -> "Holder":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_a_run_has_one_writer_or_disjoint_shards(tmp_path: Path) -> None:
    """The error names the process that holds the run; a killed process holds no lock."""
    with Holder(tmp_path) as holder:
        with pytest.raises(RunBusyError) as refused:
            make_run(tmp_path)
        assert f"collected as a whole by process {holder.process.pid} on" in str(refused.value)
        with pytest.raises(RunBusyError, match=f"process {holder.process.pid} on"):
            make_run(tmp_path, shard=Shard(0, 2))
    make_run(tmp_path).close()
    with Holder(tmp_path, "0/2") as holder:
        make_run(tmp_path, shard=Shard(1, 2)).close()
        for shard in ("0/2", "0/3", "0/1"):
            with pytest.raises(RunBusyError, match=f"process {holder.process.pid} on"):
                make_run(tmp_path, shard=Shard.parse(shard))


def test_a_child_forked_by_a_worker_does_not_keep_the_lock(tmp_path: Path) -> None:
    """As multiprocessing forks, a child of a killed process may live on."""
    run = make_run(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"here")
        time.sleep(600)
        os._exit(0)
    try:
        assert os.read(reading, 4) == b"here"
        run.close()
        make_run(tmp_path).close()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_an_opened_run_knows_what_every_journal_holds(tmp_path: Path) -> None:
    make_run(tmp_path, 6).close()
    write_journal(tmp_path / "journal.jsonl", [record(0), record(1, outcome=failed())])
    write_journal(
        tmp_path / "journal-0-of-2.jsonl",
        [
            record(2, outcome=Omitted(OmitReason.STRAGGLER)),
            record(3, final=False, outcome=failed()),
        ],
    )
    with make_run(tmp_path, 6) as run:
        statuses = [run.progress.status(task, 0) for task in range(6)]
        prior = run.progress.take(3, 0)
    assert statuses == [Status.COMPLETED, Status.FAILED, Status.OMITTED, None, None, None]
    assert prior is not None
    assert (prior.attempts, prior.cause) == (1, None)


def test_reopened_outcomes_stay_until_they_are_replaced(tmp_path: Path) -> None:
    make_run(tmp_path).close()
    write_journal(
        tmp_path / "journal.jsonl",
        [
            record(0, attempt=2, outcome=failed()),
            record(0, attempt=3, final=False, outcome=failed()),
            record(1),
            record(2, attempt=1, outcome=failed()),
            record(2, attempt=2, outcome=Completed(0.5)),
        ],
    )
    seen: list[tuple[int, int, RecordState]] = []

    def replay(attempt: Attempt, state: RecordState) -> None:
        seen.append((attempt.task, attempt.attempt, state))

    with pytest.raises(ValueError, match="never run again"):
        make_run(tmp_path, reopen=[Status.COMPLETED])
    with make_run(tmp_path, reopen=[Status.FAILED], replay=replay) as run:
        assert run.progress.status(0, 0) is Status.FAILED
        prior = run.progress.take(0, 0)
        assert prior is not None
        assert prior.attempts == 3
        assert prior.cause is FailureKind.TOOL
        assert run.progress.take(0, 0) is None
        assert run.progress.take(1, 0) is None
        assert run.progress.status(2, 0) is Status.COMPLETED
    assert seen == [
        (0, 2, RecordState.REOPENED),
        (0, 3, RecordState.CURRENT),
        (1, 1, RecordState.CURRENT),
        (2, 1, RecordState.SUPERSEDED),
        (2, 2, RecordState.CURRENT),
    ]


def test_the_torn_end_is_reported_by_the_run(tmp_path: Path) -> None:
    make_run(tmp_path).close()
    write_journal(tmp_path / "journal.jsonl", [record(0)])
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"v":1,"ta')
    with make_run(tmp_path) as run:
        assert run.torn is not None
        assert run.torn.size == 10
    with make_run(tmp_path) as run:
        assert run.torn is None


def test_a_path_through_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="a file of that name exists"):
        make_run(tmp_path / "file" / "run")


def test_a_directory_we_may_not_write_is_a_clear_error(tmp_path: Path) -> None:
    """In a child that is not root, because permissions do not apply to root."""
    make_run(tmp_path / "run").close()
    (tmp_path / "run").chmod(0o555)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(tmp_path / "run")
            if os.getuid() == 0:
                os.setuid(65534)
            make_run(Path())
        except StorageDeniedError as error:
            status = 0 if "check the owner and mode" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    (tmp_path / "run").chmod(0o755)


FULL = """
import resource, sys
from pathlib import Path
from rollgym.store import DiskFullError
from tests.builders import make_run

resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    make_run(Path(sys.argv[1]), 2000)
except DiskFullError as error:
    print(error)
"""


def test_inputs_that_do_not_fit_are_a_storage_error_and_leave_no_draft(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path / "run"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "File too large while writing the inputs" in done.stdout
    assert list((tmp_path / "run").iterdir()) == []


def test_a_draft_removed_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that opens the run at the same moment may take it for a killed process's draft."""
    real = fcntl.flock

    def flock(file: int | IO[bytes], operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        InputsDraft(tmp_path, Disk()).close()
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    draft = InputsDraft(tmp_path, Disk())
    assert draft.path.exists()
    draft.close()
