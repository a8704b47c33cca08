"""A process that dies is noticed at once and started again, but not for ever."""

import os
import signal
import time

import pytest

from rollgym.engine import run
from rollgym.records import ToolError
from rollgym.servers.launch import Fleet, ServerLostError, ServerStatus, started_in_process
from tests.integration.servers.launch.probe import ProbeRun, ask, is_alive, until


def status_of(fleet: Fleet) -> ServerStatus:
    return fleet.records()[0].status


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGKILL, "was killed with SIGKILL"), (signal.SIGSEGV, "was ended by SIGSEGV")],
)
def test_a_killed_process_is_back_on_its_port(
    probes: ProbeRun, number: signal.Signals, reason: str
) -> None:
    probes.add("apart", isolated=True)
    told: list[str] = []

    async def scenario() -> None:
        async with started_in_process(probes.config(), announce=told.append) as servers:
            before = servers.records()[0]
            assert before.pid is not None
            os.kill(before.pid, number)
            await until(lambda: len(told) == 1)
            assert status_of(servers) is ServerStatus.RESTARTING
            await until(lambda: status_of(servers) is ServerStatus.READY)
            after = servers.records()[0]
            assert (after.url, after.restarts) == (before.url, 1)
            assert after.pid != before.pid
            assert (await ask(servers.client("apart"), "/process"))["pid"] == after.pid

    run(scenario())
    assert f"apart (process {told[0].split()[2][:-1]}) {reason}" in told[0]
    assert "apart starts" in told[0]
    assert "apart is restarted in 0.25 s (restart 1 of 3)" in told[0]
    assert told[1] == "apart is ready again"


def test_its_death_is_noticed_at_once(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True)
    told: list[float] = []

    async def scenario() -> float:
        def note(_: str) -> None:
            told.append(time.monotonic())

        async with started_in_process(probes.config(), announce=note) as servers:
            pid = servers.records()[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            await until(lambda: bool(told))
            return told[0] - killed

    assert run(scenario()) < 2


def test_what_a_dead_server_had_started_is_ended(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True, helper=True)

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            seen = await ask(servers.client("apart"), "/process")
            os.kill(seen["pid"], signal.SIGKILL)
            await until(lambda: not is_alive(seen["helper"]))

    run(scenario())


def test_a_call_that_was_under_way_fails_and_the_next_one_succeeds(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True)

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            client = servers.client("apart")
            with pytest.raises(ToolError, match="apart gave no answer"):
                await client.exchange("/exit", b"{}", error=ToolError)
            await until(lambda: status_of(servers) is not ServerStatus.READY)
            await until(lambda: status_of(servers) is ServerStatus.READY)
            assert await ask(client, "/echo", x=1) == {"x": 1}

    run(scenario())


def test_only_so_many_restarts_are_made(probes: ProbeRun) -> None:
    obstacle = probes.folder / "obstacle"
    probes.add("apart", isolated=True, restarts=2, fail_once_there_is=str(obstacle))
    told: list[str] = []

    async def scenario() -> str:
        async with started_in_process(probes.config(), announce=told.append) as servers:
            obstacle.touch()
            with pytest.raises(ToolError):
                await servers.client("apart").exchange("/exit", b"{}", error=ToolError)
            with pytest.raises(ServerLostError) as lost:
                await servers.until_lost()
            assert status_of(servers) is ServerStatus.FAILED
            assert servers.records()[0].restarts == 2
            return str(lost.value)

    message = run(scenario())
    assert "ended with exit status 7" in told[0]
    assert "about to end" in told[0]
    assert len(told) == 2
    assert "apart did not start: RuntimeError: not again" in message
    assert message.endswith("apart is not restarted again after 2 restarts")


def test_one_of_several_processes_is_restarted_alone(probes: ProbeRun) -> None:
    probes.add("many", processes=2)

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            first, second = servers.records()[0].pids
            os.kill(first, signal.SIGKILL)
            await until(lambda: servers.records()[0].restarts == 1)
            await until(lambda: status_of(servers) is ServerStatus.READY)
            assert second in servers.records()[0].pids
            assert first not in servers.records()[0].pids

    run(scenario())


def test_stopping_during_a_restart_leaves_nothing(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True)

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            pid = servers.records()[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda: status_of(servers) is ServerStatus.RESTARTING)
            await until(lambda: servers.records()[0].pid != pid)
        successor = servers.records()[0].pid
        assert successor is not None
        assert not is_alive(successor)

    run(scenario())
