"""The rest of the `rollgym` command: refusals, shards, merging, profiles, wrong use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rollgym import __version__
from rollgym.cli.main import main
from rollgym.engine import observers
from tests.e2e.command import ROLLGYM, finish, records, rollgym, start, wait_for_records

SMALL = ("--tasks", "12", "--repeats", "2", "--latency", "0.01")
SLOW = ("--tasks", "20", "--repeats", "2", "--latency", "0.15", "--concurrency", "4")


def results(directory: Path) -> dict[tuple[int, int], float]:
    """The reward of each rollout, from whichever journals there are."""
    return {
        (row["task"], row["repeat"]): row["outcome"]["reward"]
        for path in directory.glob("journal*.jsonl")
        for row in records(directory, path.name)
        if row["final"]
    }


def test_a_second_process_on_the_same_run_is_refused_by_name(tmp_path: Path) -> None:
    first = start(tmp_path, "demo", "run", *SLOW)
    wait_for_records(tmp_path / "run", 1)
    second = rollgym(tmp_path, "demo", "run", *SLOW)
    assert second.status == 6
    assert f"process {first.pid} on " in second.stderr
    assert "Traceback" not in second.stderr
    first.terminate()
    assert finish(first).status == 5


def test_status_can_be_asked_while_the_run_goes_on(tmp_path: Path) -> None:
    process = start(tmp_path, "demo", "run", *SLOW)
    wait_for_records(tmp_path / "run", 5)
    status = rollgym(tmp_path, "status", "run")
    assert status.status == 0
    assert "have no outcome yet" in status.lines[-2]
    process.terminate()
    finish(process)


def test_another_seed_is_another_run_and_refused_with_the_difference(tmp_path: Path) -> None:
    rollgym(tmp_path, "demo", "run", *SMALL)
    before = records(tmp_path / "run")
    refused = rollgym(tmp_path, "demo", "run", *SMALL, "--seed", "1")
    assert refused.status == 6
    assert "seed: 0 in the run, 1 now" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert records(tmp_path / "run") == before


def test_latency_concurrency_and_faults_are_no_part_of_the_run(tmp_path: Path) -> None:
    rollgym(tmp_path, "demo", "run", *SMALL)
    again = rollgym(tmp_path, "demo", "run", *SMALL, "--concurrency", "3", "--faults", "0.9")
    assert again.status == 0


def test_a_forced_new_run_keeps_the_old_one_beside(tmp_path: Path) -> None:
    rollgym(tmp_path, "demo", "run", *SMALL)
    before = records(tmp_path / "run")
    forced = rollgym(tmp_path, "demo", "run", *SMALL, "--seed", "1", "--force-new-run")
    assert forced.status == 0
    assert records(tmp_path / "run.previous-1") == before
    assert len(records(tmp_path / "run")) >= 24


def test_shards_together_are_the_whole_run(tmp_path: Path) -> None:
    whole = rollgym(tmp_path, "demo", "whole", *SMALL)
    shards = [
        start(tmp_path, "demo", "shards", *SMALL, "--shard", f"{index}/2") for index in range(2)
    ]
    for shard in map(finish, shards):
        assert shard.status == 0, shard.stderr
        assert shard.coverage.startswith("12 expected = 12 completed")
    merged = rollgym(tmp_path, "merge", "shards", "--into", "merged")
    assert merged.status == 0
    assert merged.lines[0].startswith("merged ")
    assert merged.headline == whole.headline
    assert merged.coverage == whole.coverage
    assert results(tmp_path / "merged") == results(tmp_path / "whole")
    assert rollgym(tmp_path, "status", "shards").headline == whole.headline


def test_shards_of_two_machines_merge_too(tmp_path: Path) -> None:
    whole = rollgym(tmp_path, "demo", "whole", *SMALL)
    for index in range(2):
        rollgym(tmp_path, "demo", f"machine-{index}", *SMALL, "--shard", f"{index}/2")
    merged = rollgym(tmp_path, "merge", "machine-1", "machine-0", "--into", "merged")
    assert merged.status == 0, merged.stderr
    assert merged.headline == whole.headline
    assert merged.coverage == whole.coverage


def test_the_whole_run_continues_what_a_shard_began(tmp_path: Path) -> None:
    whole = rollgym(tmp_path, "demo", "whole", *SMALL)
    rollgym(tmp_path, "demo", "run", *SMALL, "--shard", "0/2")
    continued = rollgym(tmp_path, "demo", "run", *SMALL)
    assert continued.status == 0
    assert continued.headline == whole.headline
    assert continued.coverage == whole.coverage
    assert len(records(tmp_path / "run", "journal.jsonl")) < len(records(tmp_path / "whole"))


def test_different_runs_do_not_merge(tmp_path: Path) -> None:
    rollgym(tmp_path, "demo", "one", *SMALL)
    rollgym(tmp_path, "demo", "other", *SMALL, "--seed", "1")
    refused = rollgym(tmp_path, "merge", "one", "other", "--into", "merged")
    assert refused.status == 6
    assert "seed: " in refused.stderr
    assert not (tmp_path / "merged").exists()


def test_a_profile_has_a_line_for_each_task(tmp_path: Path) -> None:
    rollgym(tmp_path, "demo", "run", *SMALL)
    table = rollgym(tmp_path, "profile", "run")
    assert table.status == 0
    assert table.lines[0].split()[0] == "task"
    tasks, headline = table.lines[1:13], table.lines[13:]
    assert sorted(int(line.split()[0]) for line in tasks) == list(range(12))
    assert "pass@1" in json.loads("\n".join(headline))
    rows = [json.loads(line) for line in rollgym(tmp_path, "profile", "run", "--json").lines]
    rewards = results(tmp_path / "run")
    for row in rows:
        mean = (rewards[row["task"], 0] + rewards[row["task"], 1]) / 2
        assert row["mean"] == pytest.approx(mean)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_that_has_seen_enough_is_no_error(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    rollgym(tmp_path, "demo", "run", "--tasks", "3000", "--latency", "0", "--faults", "0")
    with subprocess.Popen(
        [ROLLGYM, "profile", "run", *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.parametrize("command", [("status",), ("profile",), ("merge", "--into", "new")])
def test_a_directory_without_a_run_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    refused = rollgym(tmp_path, *command, "nowhere")
    assert refused.status == 6
    assert "nowhere holds no run" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_corrupt_journal_is_refused_with_its_line(tmp_path: Path) -> None:
    rollgym(tmp_path, "demo", "run", *SMALL)
    journal = tmp_path / "run/journal.jsonl"
    journal.write_bytes(b"nonsense\n" + journal.read_bytes())
    for command in (("status", "run"), ("profile", "run"), ("demo", "run", *SMALL)):
        refused = rollgym(tmp_path, *command)
        assert refused.status == 6
        assert "journal.jsonl:1: this line is not a valid record" in refused.stderr


def test_a_directory_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = rollgym(tmp_path, "demo", "file/run", *SMALL)
    assert failed.status == 7
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a command is needed"),
        (("dmeo",), "did you mean demo?"),
        (("xyz",), "there are run, collect, reverify, view, profile, status, merge, export"),
        (("demo", "--taks=3"), "did you mean --tasks?"),
        (("demo", "--tasks", "0"), "0 is less than 1"),
        (("demo", "--shard", "2/2"), "counts from 0/n to n-1/n"),
        (("demo", "--shard", "half"), "give it as i/n"),
        (("demo", "--completion-threshold", "0"), "must be above 0"),
        (("demo", "--latency", "nan"), "is no number of seconds"),
        (("demo", "--faults", "2"), "is not between 0 and 1"),
        (("merge", "a"), "--into"),
        (("status",), "RUN"),
    ],
)
def test_wrong_use_is_told_with_exit_status_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_the_version_is_told(tmp_path: Path) -> None:
    told = rollgym(tmp_path, "--version")
    assert (told.status, told.stdout) == (0, f"rollgym {__version__}\n")


@pytest.mark.parametrize("command", [(), ("demo",), ("status",), ("merge",), ("profile",)])
def test_help_teaches_and_fits_80_columns(tmp_path: Path, command: tuple[str, ...]) -> None:
    helped = rollgym(tmp_path, *command, "--help")
    assert helped.status == 0
    assert "exit status of a command that collects:" in helped.stdout
    assert max(map(len, helped.lines)) <= 80


def test_help_does_not_wait_for_the_engine_to_load() -> None:
    code = (
        "import sys; from rollgym.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('rich', 'msgspec', 'asyncio')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_numbers_that_events_never_reached_are_counted_from_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(observers, "QUEUE_SIZE", 2)
    arguments = ("demo", str(tmp_path / "run"), *SMALL)
    assert main(arguments) == 0
    starved = capsys.readouterr().out
    assert main(["status", str(tmp_path / "run")]) == 0
    counted = capsys.readouterr().out
    assert starved.partition("files in")[0] == counted.partition("run ")[0]
    assert '"avg_reward": null' not in starved
