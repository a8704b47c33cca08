"""`ng_run` and `ng_status` as a user meets them, with real processes and real signals."""

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


def refusal(probes: ProbeRun, *arguments: str) -> str:
    done = subprocess.run(
        [*NG_RUN, *arguments],
        cwd=probes.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    return done.stderr


# Ready, and stopped again.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_servers_are_shown_when_ready_and_stopped_by_a_signal(
    probes: ProbeRun, start: Start, number: signal.Signals
) -> None:
    probes.add("here")
    probes.add("many", processes=2)
    serving = start()
    here, many = serving.wait_until_ready()
    assert serving.post(f"{here['url']}/echo", x=1) == {"x": 1}
    seen = serving.post(f"{many['url']}/ask", server="here", path="/process")
    assert seen["pid"] == serving.process.pid
    wait_until(lambda: "ready: " in serving.stdout)
    serving.interrupt(number)
    assert serving.wait() == 0, serving.stderr
    lines = serving.stdout.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["server", "here", "many", "many"]
    for url in [here["url"], *many["urls"]]:
        assert url in serving.stdout
    assert lines[4].startswith("All 2 servers are ready: here, many; ")
    assert lines[4].endswith("Ctrl-C stops them")
    assert serving.stderr.count("\n") == serving.stderr.count(" starts")


def test_ng_status_shows_servers_and_asks_each_for_its_health(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("here")
    probes.add("stuck", isolated=True)
    serving = start()
    stuck = serving.wait_until_ready()[1]
    head = f"+head_server.port={serving.head}"
    healthy = ng_status(probes.folder, head)
    assert healthy.returncode == 0, healthy.stderr
    assert [line.split()[-1] for line in healthy.stdout.splitlines()] == ["health", "ok", "ok"]
    os.kill(stuck["pid"], signal.SIGSTOP)
    try:
        sick = ng_status(probes.folder, head)
    finally:
        os.kill(stuck["pid"], signal.SIGCONT)
    assert sick.returncode == 1
    assert "no answer in time" in sick.stdout
    serving.interrupt()
    assert serving.wait() == 0


def test_ng_status_without_a_head_says_so(tmp_path: Path) -> None:
    done = ng_status(tmp_path, f"+head_server.port={free_port()}")
    assert done.returncode == 1
    assert "no ng_run answers at http://127.0.0.1:" in done.stderr


def test_on_a_terminal_a_table_is_drawn_and_ctrl_c_stops_all(
    probes: ProbeRun, start: Start
) -> None:
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


def test_the_example_of_the_tutorial_is_ready_quickly(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(
        "policy_base_url: http://127.0.0.1:9/v1\npolicy_api_key: k\npolicy_model_name: m\n"
    )
    configs = (
        "responses_api_models/openai_model/configs/openai_model.yaml,"
        "resources_servers/example_multi_step/configs/example_multi_step.yaml"
    )
    command = [*NG_RUN, f"+config_paths=[{configs}]", f"+head_server.port={free_port()}"]
    began = time.monotonic()
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if "ready: " in line)
            took = time.monotonic() - began
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert line.startswith("All 3 servers are ready: ")
    assert "example_multi_step_simple_agent" in line
    # Two seconds on a quiet machine; this one may be busy.
    assert took < 6


def test_help_teaches(tmp_path: Path) -> None:
    done = subprocess.run(
        [*NG_RUN, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith('usage: ng_run "+config_paths=[')


# What is wrong is told, and nothing starts.


def test_a_typo_in_a_reference_is_told_with_file_key_and_fix(probes: ProbeRun) -> None:
    probes.add("weather", judge={"type": "resources_servers", "name": "wether_judge"})
    probes.add("weather_judge")
    message = refusal(probes, "+config_paths=[probes.yaml]", f"+head_server.port={free_port()}")
    assert message.startswith("rollgym: probes.yaml:1: weather: `judge` names 'wether_judge'")
    assert "(did you mean 'weather_judge'?)" in message


def test_an_unknown_option_is_told_together_with_the_rest(probes: ProbeRun) -> None:
    message = refusal(probes, "+config_path=[probes.yaml]", f"+head_server.port={free_port()}")
    assert "unknown option 'config_path' (did you mean 'config_paths'?)" in message
    assert "no config file is named" in message


def test_a_wrong_value_of_an_option_is_told(probes: ProbeRun) -> None:
    probes.add("here")
    message = refusal(
        probes,
        "+config_paths=[probes.yaml]",
        f"+head_server.port={free_port()}",
        "+log_level=loud",
    )
    assert "an option is wrong: Invalid enum value 'loud' - at `$.log_level`" in message


def test_a_second_ng_run_is_refused_while_the_first_goes_on(probes: ProbeRun, start: Start) -> None:
    probes.add("here", port=free_port())
    serving = start()
    serving.wait_until_ready()
    message = refusal(probes, "+config_paths=[probes.yaml]", f"+head_server.port={serving.head}")
    assert f"another ng_run is probably running at http://127.0.0.1:{serving.head}" in message
    assert "probes.yaml:1: here: port " in message
    serving.interrupt()
    assert serving.wait() == 0


def test_a_port_that_something_else_has_is_told(probes: ProbeRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        probes.add("here", port=port)
        message = refusal(probes, "+config_paths=[probes.yaml]", f"+head_server.port={free_port()}")
    assert f"probes.yaml:1: here: port {port} on 127.0.0.1 is in use" in message


def test_a_server_that_does_not_start_is_told_and_nothing_is_left(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("fine", isolated=True)
    probes.add("slow", isolated=True, start_delay=300, noise="waits for its database")
    serving = start("+start_timeout=4")
    serving.wait_for_processes(3 - 1)
    assert serving.wait() == 6
    assert "slow was not ready within 4 s. The last lines it wrote:" in serving.stderr
    assert "waits for its database" in serving.stderr
    assert serving.stdout == ""


# Things die.


def test_a_killed_server_is_reported_and_comes_back_on_its_port(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("apart", isolated=True)
    serving = start()
    before = serving.wait_until_ready()[0]
    os.kill(before["pid"], signal.SIGKILL)
    wait_until(lambda: "apart is ready again" in serving.stderr)
    after = serving.wait_until_ready()[0]
    assert (after["restarts"], after["url"]) == (1, before["url"])
    assert serving.post(f"{after['url']}/process")["pid"] == after["pid"] != before["pid"]
    assert f"ng_run: apart (process {before['pid']}) was killed with SIGKILL" in serving.stderr
    serving.interrupt()
    assert serving.wait() == 0


def test_a_server_that_dies_too_often_ends_everything(probes: ProbeRun, start: Start) -> None:
    obstacle = probes.folder / "obstacle"
    probes.add("fine", isolated=True)
    probes.add("apart", isolated=True, restarts=1, fail_once_there_is=str(obstacle))
    serving = start()
    apart = serving.wait_until_ready()[1]
    obstacle.touch()
    os.kill(apart["pid"], signal.SIGKILL)
    assert serving.wait() == 1
    assert "not restarted again after 1 restarts; all servers are stopped" in serving.stderr


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
    request = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}"
    connection.sendall(request.encode())
    return connection


def test_killing_ng_run_during_start_up_ends_its_processes(probes: ProbeRun, start: Start) -> None:
    probes.add("apart", processes=2, start_delay=300)
    serving = start()
    serving.wait_for_processes(2)
    serving.interrupt(signal.SIGKILL)
    assert serving.wait() == -signal.SIGKILL


# Impatience and odd streams.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_start_up_stops_what_has_started(
    probes: ProbeRun, start: Start, number: signal.Signals
) -> None:
    probes.add("here", start_delay=300)
    probes.add("apart", processes=2, start_delay=300)
    serving = start()
    serving.wait_for_processes(3)
    serving.interrupt(number)
    assert serving.wait() == 5, serving.stderr
    assert "stopped before all servers were ready" in serving.stderr


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


def test_requests_under_way_do_not_hold_up_the_end(probes: ProbeRun, start: Start) -> None:
    probes.add("here")
    probes.add("apart", isolated=True)
    serving = start()
    for each in serving.wait_until_ready():
        with pytest.raises(TimeoutError):
            _post_and_leave(each["url"], "/slow")
    slow = [_connect(each["url"], "/slow") for each in serving.instances()]
    wait_until(lambda: "ready: " in serving.stdout)
    began = time.monotonic()
    serving.interrupt()
    assert serving.wait() == 0
    assert time.monotonic() - began < 6
    for connection in slow:
        connection.close()


def test_a_second_ctrl_c_ends_all_at_once(probes: ProbeRun, start: Start) -> None:
    probes.add("here", close_delay=300)
    probes.add("apart", isolated=True, close_delay=300)
    serving = start()
    serving.wait_until_ready()
    wait_until(lambda: "ready: " in serving.stdout)
    serving.interrupt()
    time.sleep(0.3)
    began = time.monotonic()
    serving.interrupt()
    assert serving.wait() == 5
    assert time.monotonic() - began < 2


def test_a_reader_who_goes_away_ends_the_output_and_not_the_servers(
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


def test_the_lines_come_through_a_pipe_as_they_are_written(probes: ProbeRun, start: Start) -> None:
    probes.add("here")
    reading, writing = os.pipe()
    serving = start(stdout=writing)
    os.close(writing)
    with os.fdopen(reading) as lines:
        assert any("The server is ready: here" in line for line in lines)
        serving.interrupt()
    assert serving.wait() == 0


def test_closed_streams_do_not_matter(probes: ProbeRun, start: Start) -> None:
    probes.add("apart", isolated=True)
    command = ("bash", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *NG_RUN)
    serving = start(command=command)
    serving.wait_until_ready()
    serving.interrupt()
    assert serving.wait() == 0


def test_in_the_background_of_a_script_it_is_stopped_all_the_same(
    probes: ProbeRun, start: Start
) -> None:
    probes.add("apart", isolated=True)
    # A shell without job control has SIGINT ignored in what it puts into the background.
    serving = start(command=("bash", "-c", 'trap "" INT; exec "$0" "$@"', *NG_RUN))
    serving.wait_until_ready()
    wait_until(lambda: "ready: " in serving.stdout)
    serving.interrupt()
    assert serving.wait() == 0


def test_logs_go_to_a_file_where_one_is_named(probes: ProbeRun, start: Start) -> None:
    probes.add("apart", isolated=True, noise="aloud")
    serving = start("+log_file=logs/run.jsonl")
    serving.wait_until_ready()
    serving.interrupt()
    assert serving.wait() == 0
    assert serving.stderr == ""
    assert "aloud" in (probes.folder / "logs/run.jsonl").read_text()
