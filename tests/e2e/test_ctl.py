"""`rollgym ctl` beside a collection that runs, as a user meets it."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollgym.cli.main import main
from tests.builders import make_run
from tests.e2e.command import finish, rollgym, start, wait_until
from tests.e2e.test_collect_rollouts import COLLECT

LATENCY = "+policy_model.responses_api_models.scripted_model.latency"
ENDLESS = (*COLLECT, "+num_repeats=4", "+num_samples_in_parallel=2", f"{LATENCY}=600")
QUICK = (*COLLECT, "+num_repeats=4", f"{LATENCY}=0")
RUN = Path("results/rollouts.run")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("responses_api_models", "resources_servers", "responses_api_agents"):
        (tmp_path / name).symlink_to(Path(__file__).parents[2] / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def collecting(folder: Path, request: pytest.FixtureRequest) -> Iterator["subprocess.Popen[str]"]:
    process = start(folder, *ENDLESS, *getattr(request, "param", ()))
    wait_until((RUN / "control.sock").exists)
    yield process
    if process.poll() is None:
        process.kill()
        finish(process)


def ctl(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    status = main(["ctl", "results/rollouts.jsonl", *arguments])
    said = capsys.readouterr()
    assert status == 0, said.err
    return said.out


def test_every_command_says_what_it_did_and_what_was_changed_stays_with_the_run(
    folder: Path, collecting: "subprocess.Popen[str]", capsys: pytest.CaptureFixture[str]
) -> None:
    wait_until(lambda: '"running":2' in ctl(capsys, "status", "--json"))
    said = rollgym(folder, "ctl", RUN, "pause")
    assert (said.status, said.stdout) == (
        0,
        "Paused: nothing starts. 2 running rollouts will finish.\n",
    )
    assert ctl(capsys, "pause") == "It is paused already.\n"
    limit = ctl(capsys, "concurrency", "5")
    assert limit == "Up to 5 rollouts at a time; 2 running rollouts.\n"
    budget = ctl(capsys, "budget", "--max-tokens", "1,000,000")
    assert budget == "The run may use 1,000,000 tokens.\n"
    assert ctl(capsys, "deadline", "2h").startswith("It stops at 2")
    assert ctl(capsys, "policy", "12") == "The policy has version 12 from now on.\n"
    assert ctl(capsys, "retry-failed", "--omitted").startswith("There is no failed or omitted")
    assert ctl(capsys, "resume") == "It goes on.\n"
    wait_until(lambda: '"running":5' in ctl(capsys, "status", "--json"))

    shown = ctl(capsys, "status")
    for line in ("running", "5 of up to 5 (the limit is set live)", "of 1,000,000", "version 12"):
        assert line in shown
    assert main(["ctl", str(RUN), "budget", "--max-cost", "1"]) == 6
    assert (
        "a limit on cost (max_cost) needs prices, and the collection has none"
        in capsys.readouterr().err
    )
    assert ctl(capsys, "concurrency", "auto").startswith("Up to 2 rollouts at a time for now")
    assert ctl(capsys, "stop").startswith("Stopping: 5 running rollouts will finish.")
    assert ctl(capsys, "resume") == "It is stopping: nothing more starts.\n"
    assert "5 running rollouts cancelled" in ctl(capsys, "stop", "--now")

    ended = finish(collecting)
    assert ended.status == 5, ended.text
    assert not (RUN / "control.sock").exists()
    assert main(["ctl", "results", "pause"]) == 6
    said_after = capsys.readouterr().err
    assert "is not being collected now. The command that made it continues it" in said_after
    assert main(["status", str(RUN)]) == 0
    shown = capsys.readouterr().out.partition("changed while it was collected:\n")[2]
    changes = [line.split(": ") for line in shown.splitlines() if line.startswith("  ")]
    assert [change for _, change in changes if "deadline" not in change] == [
        "pause reason=paused with rollgym ctl",
        "concurrency limit=5",
        "budget max_tokens=1000000",
        "policy version=12",
        "retry-failed omitted=True",
        "resume reason=paused with rollgym ctl",
        "concurrency limit=auto",
        "stop now=False",
        "stop now=True",
    ]
    assert changes[-1][0].endswith(f"(process {os.getpid()})")


@pytest.mark.campaign
def test_a_collection_stopped_by_its_deadline_goes_on_with_the_same_command(
    folder: Path, collecting: "subprocess.Popen[str]", capsys: pytest.CaptureFixture[str]
) -> None:
    ctl(capsys, "pause")
    ctl(capsys, "deadline", "0.1s")
    wait_until(lambda: '"state":"stopping"' in ctl(capsys, "status", "--json"))
    ctl(capsys, "stop", "--now")
    ended = finish(collecting)
    assert ended.status == 8, ended.text
    assert "the deadline of the run has passed" in ended.text
    assert rollgym(folder, *QUICK).status == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["pasue"], 2, "unknown command 'pasue': did you mean pause?"),
        (["concurrency", "many"], 2, "'many' is not a number of rollouts, or auto"),
        (["deadline", "soon"], 2, "'soon' is not a time: give 90m"),
        (["deadline", "2020-01-01T00:00"], 2, "has passed"),
        (["budget"], 2, "give --max-tokens, --max-cost or both"),
        (["deadline", "9999999d"], 2, "more than a hundred years"),
        (["pause"], 6, "there is no run here"),
    ],
)
@pytest.mark.parametrize("given", ["none.jsonl", "a file", "."])
def test_what_a_user_types_wrongly_is_answered_with_what_to_do(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    given: str,
    arguments: list[str],
    status: int,
    message: str,
) -> None:
    (tmp_path / "a file").touch()
    try:
        ended = main(["ctl", str(tmp_path / given), *arguments])
    except SystemExit as misuse:
        ended = int(str(misuse.code))
    assert (ended, message in capsys.readouterr().err) == (status, True)


def test_a_run_that_is_collected_where_no_socket_answers_is_named_with_its_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_run(tmp_path / "run"):
        assert main(["ctl", str(tmp_path / "run"), "pause"]) == 6
    said = capsys.readouterr().err
    assert f"is collected by process {os.getpid()} on" in said
    assert "ask on that machine" in said


@pytest.mark.campaign
@pytest.mark.parametrize("collecting", [("+processes=2",)], indirect=True)
def test_worker_processes_are_controlled_through_their_driver(
    collecting: "subprocess.Popen[str]", capsys: pytest.CaptureFixture[str]
) -> None:
    ctl(capsys, "concurrency", "6")
    wait_until(lambda: '"running":6' in ctl(capsys, "status", "--json"))
    ctl(capsys, "stop", "--now")
    assert finish(collecting).status == 5


def test_a_run_below_a_folder_that_is_not_collected_now_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "experiment" / "train" / "iteration0.run"
    make_run(run).close()
    assert main(["ctl", str(tmp_path / "experiment"), "status"]) == 6
    said = capsys.readouterr().err
    assert "is not being collected now" in said
    assert f"`rollgym status {run}` shows" in said


def test_a_run_in_a_folder_of_another_user_is_a_message(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    RUN.mkdir(parents=True)

    def denied(self: Path) -> Iterator[Path]:  # root, whom nothing is denied, runs tests too
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "iterdir", denied)
    assert main(["ctl", str(RUN), "status"]) == 6
    assert "can be asked only by the user who collects it" in capsys.readouterr().err


def test_the_run_of_another_user_is_not_asked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = RUN / ".run.lock"
    lock.mkdir(parents=True)  # cannot be opened, even by root
    assert main(["ctl", str(RUN), "status"]) == 6
    said = capsys.readouterr().err
    assert "can be asked only by the user who collects it" in said
    assert str(lock) in said
