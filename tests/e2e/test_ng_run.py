"""`ng_run` and `ng_status` with real processes and real signals."""

import os
import pty
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import PATIENCE, wait_until
from tests.e2e.serving import NG_RUN, Serving, ng_status
from tests.integration.servers.launch.probe import ProbeRun
from tests.ports import free_port

Start = Callable[..., Serving]


@pytest.fixture
def probes(tmp_path: Path) -> ProbeRun:
    return ProbeRun(tmp_path)


@pytest.fixture
def start(probes: ProbeRun) -> Iterator[Start]:
    started: list[Serving] = []

    def begin(*arguments: str, **options: Any) -> Serving:
        started.append(Serving(probes, *arguments, **options))
        return started[-1]

    yield begin
    for serving in started:
        serving.close()


def refusal(probes: ProbeRun, *arguments: str, status: int = 6) -> str:
    done = subprocess.run(
        [*NG_RUN, *arguments],
        cwd=probes.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    return done.stderr


# Ready, and stopped again.


def test_servers_are_listed_when_ready_and_stopped_by_ctrl_c(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("here")
    probes.add("many", processes=2)
    serving = start()
    here, many = serving.wait_until_ready()
    assert serving.post(f"{here['url']}/echo", x=1) == {"x": 1}
    seen = serving.post(f"{many['url']}/ask", server="here", path="/process")
    assert seen["pid"] == serving.process.pid
    wait_until(lambda: "ready: " in serving.stdout)
    serving.interrupt()
    assert serving.wait() == 0, serving.stderr
    lines = serving.stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["server", "here", "many", "many"]
    for url in [here["url"], *many["urls"]]:
        assert url in serving.stdout
    assert lines[4].startswith("All 2 servers are ready: here, many. ")
    assert lines[4].endswith("Ctrl-C stops them.")
    assert serving.stderr.count("\n") == serving.stderr.count(" starts")


def test_ng_status_checks_each_server_and_a_second_ng_run_is_rejected(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("here", port=free_port())
    probes.add("stuck", isolated=True)
    serving = start()
    stuck = serving.wait_until_ready()[1]
    head = f"+head_server.port={serving.head}"
    healthy = ng_status(probes.folder, head)
    assert healthy.returncode == 0, healthy.stderr
    assert [line.split()[-1] for line in healthy.stdout.splitlines()] == ["health", "ok", "ok"]
    os.kill(stuck["pid"], signal.SIGSTOP)
    try:
        unhealthy = ng_status(probes.folder, head)
    finally:
        os.kill(stuck["pid"], signal.SIGCONT)
    assert unhealthy.returncode == 1
    assert "no answer in time" in unhealthy.stdout
    message = refusal(probes, "+config_paths=[probes.yaml]", head)
    assert f"another ng_run is probably running at http://127.0.0.1:{serving.head}" in message
    assert "probes.yaml:1: here: port " in message
    serving.interrupt(signal.SIGTERM)
    assert serving.wait() == 0
    stopped = ng_status(probes.folder, head)
    assert stopped.returncode == 1
    assert "no ng_run answers at http://127.0.0.1:" in stopped.stderr


def test_a_terminal_shows_a_table_and_ctrl_c_stops_all(probes: ProbeRun, start: Start) -> None:
    probes.add("here")
    probes.add("apart", isolated=True)
    terminal, inside = pty.openpty()
    try:
        serving = start(stdin=inside, stdout=inside, stderr=inside, preexec_fn=_own_terminal)
        serving.wait_until_ready()
        shown = _read_until(terminal, b"Ctrl-C stops them")
        assert "┃" in shown.decode()
        os.write(terminal, b"\x03")
        assert serving.wait() == 0
    finally:
        os.close(terminal)
        os.close(inside)


def _own_terminal() -> None:
    os.setsid()
    import fcntl  # noqa: PLC0415
    import termios  # noqa: PLC0415

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _read_until(terminal: int, text: bytes) -> bytes:
    shown = b""
    while text not in shown:
        shown += os.read(terminal, 4096)
    return shown


def test_all_problems_are_reported_and_nothing_starts(probes: ProbeRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        probes.add("weather", judge={"type": "resources_servers", "name": "wether_judge"})
        probes.add("weather_judge", port=port)
        head = f"+head_server.port={free_port()}"
        options = ("+config_paths=[probes.yaml]", "+log_levle=debug", head)
        message = refusal(probes, *options, status=2)
    assert message.startswith("rollgym: 3 problems, and nothing was started:")
    assert "probes.yaml:1: weather: `judge` names 'wether_judge'" in message
    assert "(did you mean 'weather_judge'?)" in message
    assert f"weather_judge: port {port} on 127.0.0.1 is in use" in message
    assert "unknown option 'log_levle' (did you mean 'log_level'?)" in message


def test_a_server_that_does_not_start_is_reported_and_nothing_is_left(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("fine", isolated=True)
    probes.add("broken", isolated=True, fail_to_start="no database")
    serving = start()
    assert serving.wait() == 6
    assert "broken did not start: RuntimeError: no database" in serving.stderr
    assert serving.stdout == ""


# Processes that die.


def test_a_dead_server_is_restarted_on_its_port_until_its_restarts_are_used_up(
    probes: ProbeRun, start: Start
) -> None:
    obstacle = probes.folder / "obstacle"
    probes.add("fine", isolated=True)
    probes.add("apart", isolated=True, restarts=2, fail_once_there_is=str(obstacle))
    serving = start()
    before = serving.wait_until_ready()[1]
    os.kill(before["pid"], signal.SIGKILL)
    wait_until(lambda: "apart is ready again" in serving.stderr)
    after = serving.wait_until_ready()[1]
    assert (after["restarts"], after["url"]) == (1, before["url"])
    assert serving.post(f"{after['url']}/process")["pid"] == after["pid"] != before["pid"]
    assert f"ng_run: apart (process {before['pid']}) was killed with SIGKILL" in serving.stderr
    obstacle.touch()
    os.kill(after["pid"], signal.SIGKILL)
    assert serving.wait() == 1
    assert "not restarted again after 2 restarts; all servers are stopped" in serving.stderr


def test_killing_ng_run_ends_its_processes(probes: ProbeRun, start: Start) -> None:
    probes.add("apart", processes=2, helper=True)
    probes.add("stuck", isolated=True)
    serving = start()
    apart, stuck = serving.wait_until_ready()
    serving.pids |= {serving.post(f"{url}/process")["helper"] for url in apart["urls"]}
    with pytest.raises(TimeoutError):  # its event loop is blocked now
        _post_and_leave(stuck["url"], "/block")
    serving.interrupt(signal.SIGKILL)
    assert serving.wait() == -signal.SIGKILL


def _post_and_leave(url: str, path: str) -> None:
    with _connect(url, path) as connection:
        connection.recv(1)


def _connect(url: str, path: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=1)
    headers = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 2"
    request = f"POST {path} HTTP/1.1\r\n{headers}\r\n\r\n{{}}"
    connection.sendall(request.encode())
    return connection


# Signals during the start, and during the end.


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 5), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_signal_during_the_start_leaves_nothing(
    probes: ProbeRun, start: Start, number: signal.Signals, status: int
) -> None:
    probes.add("here", start_delay=300)
    probes.add("apart", processes=2, start_delay=300)
    serving = start()
    serving.wait_for_processes(3)
    serving.interrupt(number)
    assert serving.wait() == status, serving.stderr
    stopped = "stopped before all servers were ready" in serving.stderr
    assert stopped is (number == signal.SIGINT)


@pytest.mark.campaign
def test_a_signal_at_any_moment_of_the_start_leaves_nothing(probes: ProbeRun, start: Start) -> None:
    probes.add("apart", processes=2)
    for delay in (0.1, 0.3, 0.5, 0.7, 0.9):
        serving = start()
        time.sleep(delay)
        serving.pids |= _children(serving.process.pid)
        serving.interrupt()
        serving.wait()


def _children(pid: int) -> set[int]:
    try:
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except FileNotFoundError:
        return set()


def test_running_requests_do_not_delay_the_end(probes: ProbeRun, start: Start) -> None:
    probes.add("here")
    probes.add("apart", isolated=True)
    serving = start()
    endless = [_connect(each["url"], "/slow") for each in serving.wait_until_ready()]
    wait_until(lambda: "ready: " in serving.stdout)
    serving.interrupt()
    assert serving.wait() == 0
    for connection in endless:
        connection.close()


def test_a_second_signal_stops_everything_at_once(probes: ProbeRun, start: Start) -> None:
    probes.add("here", close_delay=300)
    probes.add("apart", isolated=True, close_delay=300)
    serving = start()
    serving.wait_until_ready()
    wait_until(lambda: "ready: " in serving.stdout)
    serving.interrupt(signal.SIGINT)
    serving.interrupt(signal.SIGTERM)
    assert serving.wait() == 5


# Streams.


def test_the_servers_keep_running_when_the_reader_of_the_output_ends(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("apart", isolated=True)
    reading, writing = os.pipe()
    os.close(reading)
    try:
        serving = start(stdout=writing, stderr=writing)
    finally:
        os.close(writing)
    url = serving.wait_until_ready()[0]["url"]
    assert serving.post(f"{url}/echo", x=1) == {"x": 1}
    os.kill(serving.instances()[0]["pid"], signal.SIGKILL)
    wait_until(lambda: serving.instances()[0]["restarts"] == 1)
    serving.wait_until_ready()
    serving.interrupt()
    assert serving.wait() == 0


def test_lines_come_through_a_pipe_at_once_and_logs_go_to_a_file(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("apart", isolated=True, noise="aloud")
    reading, writing = os.pipe()
    serving = start("+log_file=logs/run.jsonl", stdout=writing)
    os.close(writing)
    with os.fdopen(reading) as lines:
        assert any("The server is ready: apart" in line for line in lines)
        serving.interrupt(signal.SIGHUP)
    assert serving.wait() == 0
    assert serving.stderr == ""
    assert "aloud" in (probes.folder / "logs/run.jsonl").read_text()


def test_it_is_stopped_in_the_background_of_a_script_and_with_closed_streams(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("apart", isolated=True)
    # A shell without job control ignores SIGINT in the programs that it starts in the background.
    script = 'trap "" INT; exec "$0" "$@" <&- >&- 2>&-'
    serving = start(command=("bash", "-c", script, *NG_RUN))
    serving.wait_until_ready()
    serving.interrupt()
    assert serving.wait() == 0
