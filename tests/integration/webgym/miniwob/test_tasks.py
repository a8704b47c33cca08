import asyncio
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import msgspec
import pytest

from rollgym.store import packages
from tests.integration.webgym.miniwob.small_package import NAMES, make_package
from webgym.miniwob.command import configure, run
from webgym.miniwob.episodes import EpisodeEnded, Episodes, EpisodeStarted
from webgym.miniwob.package import (
    FOLDER_VARIABLE,
    Catalogue,
    MiniWobError,
    MiniWobTask,
    cache_folder,
    fetch_package,
    find_package,
)
from webgym.miniwob.rows import MiniWobRow, load_tasks, start_url, state_url

BASE = "http://127.0.0.1:7310"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    return make_package(tmp_path / "miniwob").folder


def command(*arguments: str) -> int:
    parser = ArgumentParser()
    configure(parser)
    return run(parser.parse_args(arguments))


# ---- rows


def test_each_task_that_can_be_solved_is_a_row_for_each_seed(folder: Path) -> None:
    rows = load_tasks(BASE + "/", range(2), catalogue=Catalogue(find_package(folder)))
    assert [row.task_id for row in rows] == [
        "miniwob-circle-center-0",
        "miniwob-click-button-0",
        "miniwob-click-slowly-0",
        "miniwob-circle-center-1",
        "miniwob-click-button-1",
        "miniwob-click-slowly-1",
    ]
    assert rows[1] == MiniWobRow(
        task_id="miniwob-click-button-0",
        task_name="Follow the instruction at the top of the page. "
        "What it is about: Click on a button.",
        website=f"{BASE}/task/click-button?seed=0",
        domain="MiniWoB++",
        subdomain="click-button",
        difficulty=2,
        evaluator_reference=("The instruction at the top of the page was carried out.",),
        verifier="miniwob",
    )
    assert rows[2].task_name.endswith("Click on a button. (Taking one's time)")
    assert rows[0].task_name == "Follow the instruction at the top of the page."
    assert rows[0].difficulty == 4


def test_tasks_that_are_named_need_not_be_solvable(folder: Path) -> None:
    catalogue = Catalogue(find_package(folder))
    [row] = load_tasks(BASE, [5], ["drag-cube"], zoom=3, catalogue=catalogue)
    assert row.website == f"{BASE}/task/drag-cube?seed=5&zoom=3"
    assert len(catalogue.tasks) == len(NAMES)
    with pytest.raises(MiniWobError, match="there is no task 'drag-cub': did you mean drag-cube?"):
        load_tasks(BASE, names=["drag-cub"], catalogue=catalogue)


def test_a_row_is_opened_in_a_session_and_asked_about(folder: Path) -> None:
    catalogue = Catalogue(find_package(folder))
    [row] = load_tasks(BASE, [5], ["drag-cube"], zoom=3, catalogue=catalogue)
    with pytest.raises(MiniWobError, match="is not a session name"):
        start_url(row, "not a name")
    opened = start_url(row, "mine")
    assert opened == f"{BASE}/task/drag-cube?seed=5&zoom=3&session=mine"
    assert state_url(opened) == f"{BASE}/_truth/mine"
    for other in (f"{BASE}/task/drag-cube?seed=5", f"{BASE}/?session=mine", "about:blank"):
        assert state_url(other) is None
    assert state_url(f"{BASE}/task/drag-cube?session=..%2Fx") is None


# ---- episodes


def test_of_many_sessions_the_latest_are_remembered() -> None:
    episodes = Episodes(limit=3)
    task = MiniWobTask("click-button", "")
    for name in ("a", "b", "c"):
        episodes.open(name, task, 0)
    episodes.apply("a", EpisodeStarted("Do it."))
    episodes.open("d", task, 0)
    assert episodes.find("b") is None
    remembered = episodes.find("a")
    assert remembered
    assert remembered.instruction == "Do it."
    assert not episodes.apply("b", EpisodeEnded(1.0))


# ---- finding the package


def test_the_package_is_found_where_it_is_named_installed_or_was_unpacked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(MiniWobError, match="python -m webgym.miniwob --fetch"):
        find_package()
    with pytest.raises(MiniWobError, match="is not a folder of the package miniwob"):
        find_package(tmp_path)

    unpacked = make_package(cache_folder() / "miniwob")
    assert find_package() == unpacked
    (tmp_path / "site").mkdir()
    installed = make_package(tmp_path / "site" / "miniwob")
    monkeypatch.setattr(packages, "find_spec", _spec_in(tmp_path / "site"))
    assert find_package() == installed
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    assert find_package().folder == folder
    assert find_package(installed.folder) == installed


def _spec_in(place: Path) -> object:
    from importlib.machinery import ModuleSpec  # noqa: PLC0415

    spec = ModuleSpec("miniwob", None, is_package=True)
    spec.submodule_search_locations = [str(place / "miniwob")]
    return lambda _: spec


def test_fetching_unpacks_the_package_without_its_requirements(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def install(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        calls.append(command)
        target = Path(command[command.index("--target") + 1])
        wanted = Path(command[command.index("-r") + 1]).read_text()
        assert wanted.startswith("miniwob==1.1.0 --hash=sha256:")
        if len(calls) == 1:
            return subprocess.CompletedProcess(command, 1, "", "no such package")
        make_package(target / "miniwob")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/uv")
    monkeypatch.setattr("subprocess.run", install)
    assert fetch_package() == find_package()
    assert [call[0] for call in calls] == ["/usr/bin/uv", sys.executable]
    assert all("--no-deps" in call and "--require-hashes" in call for call in calls)
    # Again, over what is there.
    assert fetch_package().names() == list(NAMES)
    assert [path.name for path in cache_folder().parent.iterdir()] == [cache_folder().name]


def test_a_failed_fetch_says_what_the_installer_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def install(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, 1, "", "no route to host")

    monkeypatch.setattr("subprocess.run", install)
    with pytest.raises(MiniWobError, match="no route to host"):
        command("--fetch")
    assert not cache_folder().exists()


# ---- the command


def test_the_command_writes_a_task_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tasks.jsonl"
    options = ["--folder", str(folder), "--write-tasks", str(file), "--no-instructions"]
    assert command(*options, "--seeds", "0-2", "--tasks", "click-button, drag-cube") == 0
    rows = [msgspec.json.decode(line, type=MiniWobRow) for line in file.read_bytes().splitlines()]
    assert len(rows) == 6
    assert rows[0].website == "http://127.0.0.1:7310/task/click-button?seed=0"
    assert capsys.readouterr().out == f"6 tasks are in {file}\n"
    assert command(*options, "--base-url", "http://there:1", "--seeds", "4", "--zoom", "2") == 0
    assert b"http://there:1/task/circle-center?seed=4&zoom=2" in file.read_bytes()


def test_wrong_options_are_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    for options in [
        ["--seeds", "a"],
        ["--seeds", "5-2"],
        ["--seeds", "0-1000000"],
        ["--port", "70000"],
    ]:
        with pytest.raises(SystemExit, match="2"):
            command(*options)
        assert "error: argument" in capsys.readouterr().err


def test_the_command_serves_until_a_signal(folder: Path) -> None:
    async def serve() -> tuple[str, int]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "webgym.miniwob", "--port", "0", "--folder", str(folder)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdout
        async with asyncio.timeout(60):
            line = await process.stdout.readline()
            process.terminate()
            return line.decode(), await process.wait()

    said, status = asyncio.run(serve())
    assert said.startswith("MiniWoB++ is ready at http://127.0.0.1:")
    assert status == 0


def test_the_command_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "webgym.miniwob", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 6
    assert "is not a folder of the package miniwob" in ended.stderr
    assert "Traceback" not in ended.stderr
