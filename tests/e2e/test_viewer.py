"""The real `ng_viewer` in a process of its own, and in a real browser where there is one."""

import re
import select
import shutil
import signal
import subprocess
import sys
import urllib.request
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from rollgym.cli.view import configure, run
from rollgym.viewer import ViewerError
from tests.e2e.command import PATIENCE, Ended, finish
from tests.integration.viewer.rollouts import HOSTILE, rollout, write

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


def start(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "rollgym.cli.view", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def refused(folder: Path, *arguments: str) -> Ended:
    ended = finish(start(folder, *arguments))
    assert "Traceback" not in ended.stderr
    return ended


@contextmanager
def viewing(folder: Path, *arguments: str) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """The process, and the URL that it printed."""
    process = start(folder, *arguments)
    with process:
        try:
            assert process.stdout
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else ""
            found = re.search(r"http://\S+", line)
            assert found, f"no URL in {line!r}"
            yield process, found[0]
        finally:
            process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    lines = [rollout(0, 0, question=HOSTILE, answer=HOSTILE), rollout(0, 1, 0.0)]
    write(tmp_path / "results/x.jsonl", lines)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_viewer_shows_a_file_until_it_is_stopped(folder: Path, number: signal.Signals) -> None:
    with viewing(folder, "+jsonl_fpath=results/x.jsonl", "+server_port=null") as (process, url):
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            assert "What is the weather?" in answer.read().decode()
        process.send_signal(number)
        assert process.wait(PATIENCE) == 0
        assert process.stderr
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["+jsonl_fpath=results/y.jsonl"], "there is no file results/y.jsonl (did you mean"),
        (["+jsonl_fpath=results"], "results is no file"),
        (["+jsonl_fpat=results/x.jsonl"], "no option +jsonl_fpat (did you mean 'jsonl_fpath'?)"),
        ([], "`jsonl_fpath`"),
        (["+jsonl_fpath=results/x.jsonl", "+server_port=99999"], "server_port"),
        (["+jsonl_fpath=results/x.jsonl", "+server_host=192.0.2.1"], "cannot listen"),
        (["results/x.jsonl"], "write +key=value"),
    ],
)
def test_a_command_that_cannot_be_run_says_what_to_do(
    folder: Path, arguments: Sequence[str], said: str
) -> None:
    ended = refused(folder, *arguments)
    assert ended.status == 6
    assert said in ended.stderr


def test_rollgym_view_takes_the_same_as_options(folder: Path) -> None:
    parser = ArgumentParser()
    configure(parser)
    with pytest.raises(ViewerError, match="is no file"):
        run(parser.parse_args([str(folder), "--host", "127.0.0.1", "--port", "0"]))
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args([str(folder), "--port", "65536"])


def test_help_is_given_without_a_file(folder: Path) -> None:
    ended = refused(folder, "--help")
    assert ended.status == 0
    assert "+jsonl_fpath=FILE" in ended.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_in_a_real_browser_nothing_hostile_runs(folder: Path) -> None:
    with viewing(folder, "+jsonl_fpath=results/x.jsonl") as (_, url):
        listed, shown = (chromium(folder, "--dump-dom", url + end) for end in ("", "rollouts/1"))
        for page in (listed, shown):
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
            assert "<script" not in page
            assert "onerror=alert(2)&gt;" in page
        chromium(folder, "--screenshot=shot.png", "--window-size=390,800", f"{url}rollouts/1")
        assert (folder / "shot.png").stat().st_size > 1000


def chromium(folder: Path, *arguments: str) -> str:
    assert CHROMIUM
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, timeout=PATIENCE, check=True)
    return ended.stdout.decode()
