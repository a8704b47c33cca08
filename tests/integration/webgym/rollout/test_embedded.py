"""Servers that belong to a run: started, watched, started again, stopped, gone with the run."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.request import urlopen

import pytest

from webgym.rollout.embedded import EmbeddedError, EmbeddedProgram, EmbeddedServer, embedded_servers

PATIENCE = 20.0
SERVING = """
    import http.server, os, sys

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(str(os.getpid()).encode())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"A server is ready at http://127.0.0.1:{server.server_port}: it is tiny", flush=True)
    server.serve_forever()
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EmbeddedServer]:
    """A server whose module has this source."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(source: str, start_seconds: float = PATIENCE) -> EmbeddedServer:
        (tmp_path / "tiny.py").write_text(textwrap.dedent(source))
        return EmbeddedServer(
            EmbeddedProgram("tiny", "tiny", ("{port}",)), tmp_path / "logs", start_seconds
        )

    return make


def pid_of(server: EmbeddedServer) -> int:
    with urlopen(server.url, timeout=60) as answer:
        assert answer.status == HTTPStatus.OK
        return int(answer.read())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_server_is_there_for_the_block_and_gone_after_it(
    make: Callable[..., EmbeddedServer],
) -> None:
    with make(SERVING) as server:
        pid = pid_of(server)
    assert not is_alive(pid)
    assert "ready at" in server.log.read_text()


def test_a_server_that_does_not_start_is_told_with_its_last_lines(
    make: Callable[..., EmbeddedServer],
) -> None:
    source = "import sys; print('no memory left'); sys.exit(3)"
    with pytest.raises(EmbeddedError, match="it ended with status 3") as caught, make(source):
        pass
    assert "| no memory left" in str(caught.value)
    assert f"-{os.getpid()}.log; its last lines:" in str(caught.value)


def test_a_server_that_says_nothing_is_given_up(make: Callable[..., EmbeddedServer]) -> None:
    source = "import time; time.sleep(600)"
    with pytest.raises(EmbeddedError, match="was not ready within 1 seconds"), make(source, 1.0):
        pass


def test_a_server_that_will_not_stop_is_killed(
    make: Callable[..., EmbeddedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webgym.rollout.embedded.STOP_SECONDS", 0.3)
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    with make(f"{stubborn}\n{textwrap.dedent(SERVING)}") as server:
        pid = pid_of(server)
    assert not is_alive(pid)


def test_a_server_that_dies_is_started_again_at_its_address(
    make: Callable[..., EmbeddedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webgym.rollout.embedded.WATCH_SECONDS", 0.05)
    with make(SERVING) as server:
        url, first = server.url, pid_of(server)
        os.kill(first, signal.SIGKILL)

        def is_back() -> bool:
            try:
                return pid_of(server) != first
            except OSError:
                return False

        assert eventually(is_back)
        assert server.url == url


@pytest.mark.campaign
def test_runs_that_share_a_folder_have_servers_of_their_own(
    make: Callable[..., EmbeddedServer], tmp_path: Path
) -> None:
    make(f"import time; time.sleep(0.3)\n{textwrap.dedent(SERVING)}")
    program = f"""
        from pathlib import Path
        from webgym.rollout.embedded import EmbeddedProgram, EmbeddedServer
        program = EmbeddedProgram("tiny", "tiny", ("{{port}}",))
        with EmbeddedServer(program, Path({str(tmp_path)!r})) as server:
            print(server.url, flush=True)
            input()
    """
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    urls = {run.stdout.readline() for run in runs if run.stdout is not None}
    for run in runs:
        run.communicate("\n", timeout=PATIENCE)
    assert len(urls) == len(runs)


def test_the_servers_of_a_run_that_was_killed_end_by_themselves(
    make: Callable[..., EmbeddedServer], tmp_path: Path
) -> None:
    make(SERVING)
    program = f"""
        import time
        from pathlib import Path
        from webgym.rollout.embedded import EmbeddedProgram, EmbeddedServer
        program = EmbeddedProgram("tiny", "tiny", ("{{port}}",))
        with EmbeddedServer(program, Path({str(tmp_path)!r})) as server:
            print(server.url, flush=True)
            time.sleep(600)
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    with run, urlopen(run.stdout.readline().strip(), timeout=60) as answer:
        server = int(answer.read())
        run.kill()
    assert eventually(lambda: not is_alive(server))


def test_the_test_sites_come_up_by_their_name(tmp_path: Path) -> None:
    with embedded_servers(["sites"], tmp_path, "secret") as found:
        assert found.token == "secret"
        assert found.browser_url is None
        with urlopen(f"{found.sites_url}/shop/", timeout=60) as answer:
            assert b"<html" in answer.read().lower()
    (log,) = (tmp_path / "logs").iterdir()
    assert log.name.startswith("sites-")


def test_without_servers_there_is_nothing(tmp_path: Path) -> None:
    with embedded_servers([], tmp_path, None) as found:
        assert found == (None, None, None, None)
    assert not list(tmp_path.iterdir())
