"""`python -m webgym.browser` as a process: ready, stopped, rejected, orphaned."""

import contextlib
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.webgym.browser.server.harness import PATIENCE
from webgym.browser.settings import TOKEN_VARIABLE

ROOT = Path(__file__).parents[5]
MASTER = ("serve", "--role", "master", "--port", "0")
READY = r"Browser master ready at (http://127\.0\.0\.1:\d+): .*\. Press Ctrl-C to stop\.\n"
STUBBORN = """
import asyncio
from webgym.served import until_stopped

async def work():
    print("ready", flush=True)
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            print("never", flush=True)

asyncio.run(until_stopped(work()))
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "webgym.browser", *arguments]


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE} | more


@contextmanager
def started(arguments: Sequence[str], **more: str) -> "Iterator[subprocess.Popen[str]]":
    process = subprocess.Popen(
        arguments,
        cwd=ROOT,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], 2 * PATIENCE)
    return process.stdout.readline() if ready else ""


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def refused(*arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


def shows_no_nodes(url: str) -> None:
    told = refused("status", "--url", url, **{TOKEN_VARIABLE: "secret"})
    assert told.stdout.splitlines()[0].split() == ["node", "url", "health", "used", "capacity"]
    assert "0 of 0 sessions are free; 0 requests wait" in told.stdout
    assert told.returncode == 1, "a server without nodes is not healthy"
    unauthorized = refused("status", "--url", url)
    assert (unauthorized.returncode, unauthorized.stdout) == (1, "")
    assert "the token is missing" in unauthorized.stderr


def test_a_server_says_when_it_is_ready_shows_its_nodes_and_stops_on_signals() -> None:
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    token = {TOKEN_VARIABLE: "secret"}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(started(command(*MASTER), **token)) for _ in signals]
        for process, number in zip(servers, signals, strict=True):
            line = line_of(process)
            found = re.fullmatch(READY, line)
            assert found, line
            assert answers(found[1])
            if process is servers[0]:
                shows_no_nodes(found[1])
            process.send_signal(number)
        for process in servers:
            assert process.wait(PATIENCE) == 0
            assert process.stderr
            assert process.stderr.read() == ""


def test_status_says_when_there_is_no_server() -> None:
    told = refused("status", "--url", "http://127.0.0.1:9")
    assert told.returncode == 1
    assert "no browser server answers at http://127.0.0.1:9" in told.stderr
    assert "`rollgym browser serve`" in told.stderr


def test_settings_that_cannot_be_served_are_rejected_with_advice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = str(used.getsockname()[1])
        rejected = {
            ("--port", "0", "--browser", "/no/such/browser"): "/no/such/browser",
            (*MASTER[:-1], port): f"cannot listen on 127.0.0.1 port {port}",
        }
        with contextlib.ExitStack() as stack:
            processes = {
                arguments: stack.enter_context(started(command(*arguments)))
                for arguments in rejected
            }
            for arguments, process in processes.items():
                _, printed = process.communicate(timeout=PATIENCE)
                assert process.returncode == 6, printed
                assert rejected[arguments] in printed
                assert "Traceback" not in printed


def test_a_server_ends_with_its_parent_unless_it_was_started_with_nohup() -> None:
    with orphan("nohup ") as stays, orphan("") as url:
        deadline = time.monotonic() + PATIENCE
        while answers(url):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        # It noticed the end of its parent before the other one did.
        assert answers(stays)


@contextmanager
def orphan(before: str) -> Iterator[str]:
    """A server whose parent ended as soon as it was ready."""
    script = f"{before}{shlex.join(command(*MASTER))} 2>&1 & echo $!; wait"
    with started(["bash", "-c", script]) as shell:
        pid = int(line_of(shell))
        try:
            line = line_of(shell)
            while "ready at" not in line:
                line = line_of(shell)
                assert line
            shell.kill()
            shell.wait(PATIENCE)
            yield line.split()[4].rstrip(":")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_a_second_signal_stops_at_once() -> None:
    with started([sys.executable, "-c", STUBBORN]) as process:
        assert line_of(process) == "ready\n"
        process.send_signal(signal.SIGINT)
        assert line_of(process) == "never\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 5
