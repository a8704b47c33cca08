"""The real `ng_viewer` in a process of its own."""

import json
import re
import select
import signal
import subprocess
import sys
import urllib.request
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rollgym.cli.view import configure, run
from rollgym.viewer import ViewerError
from tests.e2e.command import PATIENCE, ROLLGYM, Ended, finish, wait_until
from tests.integration.viewer.rollouts import rollout, write

NG_VIEWER = (sys.executable, "-m", "rollgym.cli.view")
VIEW = (str(ROLLGYM), "view")


def start(folder: Path, *command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refused(folder: Path, *command: str) -> Ended:
    ended = finish(start(folder, *command))
    assert "Traceback" not in ended.stderr
    return ended


class Viewing:
    """A viewer that runs, and the line that it printed."""

    def __init__(self, process: "subprocess.Popen[str]", line: str) -> None:
        self.process = process
        self.line = line
        found = re.search(r"http://\S+", line)
        assert found, f"no URL in {line!r}"
        self.url = found[0]

    def get(self, path: str = "") -> str:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            text: str = answer.read().decode()
        return text

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))

    def sources(self) -> list[str]:
        return [source["id"] for source in self.json("api/sources")["sources"]]

    def end(self, number: signal.Signals) -> str:
        """What it said on standard error meanwhile."""
        self.process.send_signal(number)
        assert self.process.wait(PATIENCE) == 0
        assert self.process.stderr
        return self.process.stderr.read()


@contextmanager
def viewing(folder: Path, *command: str) -> Iterator[Viewing]:
    process = start(folder, *command)
    with process:
        try:
            assert process.stdout
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            yield Viewing(process, process.stdout.readline() if ready else "")
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    write(tmp_path / "results/x.jsonl", [rollout(0, 0), rollout(0, 1, 0.0)])
    write(tmp_path / "results/y.jsonl", [rollout(1)])
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_viewer_shows_a_file_until_it_is_stopped(folder: Path, number: signal.Signals) -> None:
    command = (*NG_VIEWER, "+jsonl_fpath=results/x.jsonl", "+server_port=null")
    with viewing(folder, *command) as viewer:
        assert viewer.line == f"results/x.jsonl is shown at {viewer.url} until Ctrl-C\n"
        assert viewer.get().startswith("<!doctype html>")
        wait_until(lambda: viewer.json("api/s/x/rollouts")["total"] == 2)
        assert viewer.json("api/s/x/rollouts")["entries"][0]["title"] == "What is the weather?"
        assert viewer.end(number) == ""


def test_it_ends_at_once_while_a_client_is_listening(folder: Path) -> None:
    with (
        viewing(folder, *NG_VIEWER, "+jsonl_fpath=results/x.jsonl") as viewer,
        urllib.request.urlopen(f"{viewer.url}api/events", timeout=PATIENCE) as stream,
    ):
        assert stream.readline() == b"retry: 2000\n"
        assert viewer.end(signal.SIGINT) == ""


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ((*NG_VIEWER, "+jsonl_fpath=[results/x.jsonl,results/y.jsonl]"), ["x", "y"]),
        ((*VIEW, "results/y.jsonl", "results", "--port", "0"), ["y", "x"]),
        (VIEW, ["x", "y"]),
    ],
    ids=["list", "both", "default"],
)
def test_several_files_and_folders_can_be_shown(
    folder: Path, command: Sequence[str], expected: list[str]
) -> None:
    with viewing(folder, *command) as viewer:
        assert viewer.sources() == expected


def test_what_was_indexed_is_known_the_next_time(folder: Path) -> None:
    command = (*NG_VIEWER, "+jsonl_fpath=results/x.jsonl")
    with viewing(folder, *command) as viewer:
        wait_until(lambda: viewer.json("api/s/x/rollouts")["total"] == 2)
        viewer.end(signal.SIGINT)
    with viewing(folder, *command) as viewer:
        [source] = viewer.json("api/sources")["sources"]
        assert (source["state"]["ready"], source["state"]["entries"]) == (True, 2)


def test_the_page_is_opened_in_a_browser_where_that_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, opened = folder / "browser", folder / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part\nmv {opened}.part {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    with viewing(folder, *VIEW, "results", "--open") as viewer:
        wait_until(opened.exists)
        assert opened.read_text() == f"{viewer.url}\n"


def test_a_folder_may_be_empty_when_the_viewer_is_started(folder: Path) -> None:
    (folder / "empty").mkdir()
    with viewing(folder, *VIEW, "empty") as viewer:
        assert viewer.line == f"empty is shown at {viewer.url} until Ctrl-C\n"
        assert viewer.sources() == []
        write(folder / "empty/z.jsonl", [rollout()])
        wait_until(lambda: viewer.sources() == ["z"])
        assert "empty has no rollouts yet" in viewer.end(signal.SIGINT)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["+jsonl_fpath=results/z.jsonl"], 6, "results/z.jsonl does not exist (did you mean"),
        (["+jsonl_fpat=results/x.jsonl"], 2, "no option +jsonl_fpat (did you mean 'jsonl_fpath'?)"),
        (["+jsonl_fpath=results/x.jsonl", "+server_host=192.0.2.1"], 6, "cannot listen"),
        (["--port", "results/x.jsonl"], 2, "options are written without dashes"),
    ],
)
def test_a_command_that_cannot_be_run_says_what_to_do(
    folder: Path, arguments: Sequence[str], status: int, said: str
) -> None:
    ended = refused(folder, *NG_VIEWER, *arguments)
    assert ended.status == status
    assert said in ended.stderr


def test_rollgym_view_takes_the_same_as_options(folder: Path) -> None:
    parser = ArgumentParser()
    configure(parser)
    with pytest.raises(ViewerError, match="none does not exist"):
        run(parser.parse_args(["none", "--host", "127.0.0.1", "--port", "0"]))
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args([str(folder), "--port", "65536"])


def test_help_is_given_without_a_file(folder: Path) -> None:
    ended = refused(folder, *NG_VIEWER, "--help")
    assert ended.status == 0
    assert "+jsonl_fpath=FILE" in ended.stdout
