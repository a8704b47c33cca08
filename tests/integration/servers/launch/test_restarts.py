"""A process that dies is noticed at once and started again, but not for ever."""

import os
import signal

import pytest

from rollgym.engine import run
from rollgym.records import ToolError
from rollgym.servers.launch.fleet import Fleet, started_in_process
from rollgym.servers.launch.records import ServerLostError, ServerStatus
from tests.integration.servers.launch.probe import ProbeRun, ask, is_alive, until


def status_of(fleet: Fleet) -> ServerStatus:
    return fleet.records()[0].status


def test_a_killed_process_is_restarted_on_its_port_and_its_children_are_killed(
    probes: ProbeRun,
) -> None:
    probes.add("apart", isolated=True, helper=True)
    told: list[str] = []

    async def scenario() -> None:
        async with started_in_process(probes.config(), announce=told.append) as servers:
            before = servers.records()[0]
            helper = (await ask(servers.client("apart"), "/process"))["helper"]
            assert before.pid is not None
            os.kill(before.pid, signal.SIGSEGV)
            await until(lambda: len(told) == 1)
            assert status_of(servers) is ServerStatus.RESTARTING
            await until(lambda: status_of(servers) is ServerStatus.READY)
            await until(lambda: not is_alive(helper))
            after = servers.records()[0]
            assert (after.url, after.restarts) == (before.url, 1)
            assert after.pid != before.pid
            assert (await ask(servers.client("apart"), "/process"))["pid"] == after.pid

    run(scenario())
    assert f"apart (process {told[0].split()[2][:-1]}) was ended by SIGSEGV" in told[0]
    assert "apart starts" in told[0]
    assert "apart is restarted in 0.25 s (restart 1 of 3)" in told[0]
    assert told[1] == "apart is ready again"


def test_calls_succeed_after_a_restart_until_the_restarts_are_used_up(probes: ProbeRun) -> None:
    obstacle = probes.folder / "obstacle"
    probes.add("apart", isolated=True, restarts=2, fail_once_there_is=str(obstacle))
    told: list[str] = []

    async def scenario() -> str:
        async with started_in_process(probes.config(), announce=told.append) as servers:
            client = servers.client("apart")
            with pytest.raises(ToolError, match="apart gave no answer"):
                await client.call("/exit", b"{}", error=ToolError, any_status=True)
            await until(lambda: "apart is ready again" in told)
            assert await ask(client, "/echo", x=1) == {"x": 1}
            obstacle.touch()
            with pytest.raises(ToolError):
                await client.call("/exit", b"{}", error=ToolError, any_status=True)
            with pytest.raises(ServerLostError) as lost:
                await servers.until_lost()
            assert status_of(servers) is ServerStatus.FAILED
            assert servers.records()[0].restarts == 2
            return str(lost.value)

    message = run(scenario())
    assert "ended with exit status 7" in told[0]
    assert "about to end" in told[0]
    assert len(told) == 3
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
