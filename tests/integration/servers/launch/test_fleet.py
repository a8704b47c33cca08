"""The servers of a run, started and stopped as one."""

import asyncio
import os
import time

import pytest

from rollgym.engine import run
from rollgym.servers.config import ConfigError
from rollgym.servers.launch import Fleet, ServerStatus, StartError, started_in_process
from tests.e2e.command import wait_until
from tests.integration.servers.launch.probe import ProbeRun, ask, is_alive, until


def test_servers_of_this_process_are_called_without_a_port(probes: ProbeRun) -> None:
    probes.add("one")
    probes.add("two")

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            assert await ask(servers.client("one"), "/echo", x=1) == {"x": 1}
            asked = await ask(servers.client("one"), "/ask", server="two", path="/process")
            assert asked["pid"] == os.getpid()
            assert [record.port for record in servers.records()] == [0, 0]
            assert {record.status for record in servers.records()} == {ServerStatus.READY}
            with pytest.raises(KeyError):
                servers.client("three")

    run(scenario())


def test_an_isolated_server_has_a_process_and_both_sides_find_each_other(probes: ProbeRun) -> None:
    probes.add("here")
    probes.add("apart", isolated=True)
    probes.add("also_apart", isolated=True)

    async def scenario() -> list[int]:
        async with started_in_process(probes.config()) as servers:
            client = servers.client("apart")
            own = (await ask(client, "/process"))["pid"]
            assert own != os.getpid()
            back = await ask(client, "/ask", server="here", path="/process")
            assert back["pid"] == os.getpid()
            across = await ask(client, "/ask", server="also_apart", path="/process")
            record = next(each for each in servers.records() if each.name == "apart")
            assert (record.pid, record.pids, record.urls) == (own, [own], [record.url])
            return [own, across["pid"]]

    assert not any(map(is_alive, run(scenario())))


def test_a_client_of_several_processes_takes_them_in_turn(probes: ProbeRun) -> None:
    probes.add("many", processes=2)

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            client = servers.client("many")
            pids = [(await ask(client.one(), "/process"))["pid"] for _ in range(4)]
            record = servers.records()[0]
            assert sorted(set(pids)) == sorted(record.pids)
            assert pids[:2] == pids[2:]
            assert len(set(record.urls)) == 2

    run(scenario())


def test_credentials_do_not_show_in_records_or_command_lines(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True, api_key="sk-very-secret")

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            record = servers.records()[0]
            assert record.config["api_key"] == "***"
            for file in ("cmdline", "environ"):
                with open(f"/proc/{record.pid}/{file}", "rb") as shown:  # noqa: ASYNC230, PTH123
                    assert b"secret" not in shown.read()

    run(scenario())


@pytest.mark.parametrize("isolated", [False, True])
def test_a_server_that_fails_to_start_is_named_and_the_others_are_stopped(
    probes: ProbeRun, isolated: bool
) -> None:
    probes.add("fine", isolated=True)
    probes.add("broken", isolated=isolated, fail_to_start="no database")

    async def scenario() -> list[int]:
        fleet = Fleet(probes.config(), serving=False)
        try:
            with pytest.raises(StartError, match="broken did not start: RuntimeError: no database"):
                await fleet.start()
            return [pid for record in fleet.records() for pid in record.pids if pid != os.getpid()]
        finally:
            await fleet.stop()

    assert not any(map(is_alive, run(scenario())))


@pytest.mark.parametrize("isolated", [False, True])
def test_a_server_that_is_not_ready_in_time_is_named(probes: ProbeRun, isolated: bool) -> None:
    probes.add("quick")
    probes.add("slow", isolated=isolated, start_delay=300, noise="and waits for a lock")

    async def scenario() -> str:
        fleet = Fleet(probes.config(), serving=False)
        try:
            with pytest.raises(StartError) as refused:
                await fleet.start(3.0 if isolated else 0.3)
            return str(refused.value)
        finally:
            await fleet.stop()

    message = run(scenario())
    assert "slow was not ready within " in message
    assert "quick" not in message
    assert not isolated or "and waits for a lock" in message


def test_all_that_fail_for_one_reason_are_told_together(probes: ProbeRun) -> None:
    probes.add("one", start_delay=300)
    probes.add("two", start_delay=300)

    async def scenario() -> str:
        with pytest.raises(StartError) as refused:
            async with started_in_process(probes.config(), within=0.2):
                pass
        return str(refused.value)

    assert len(run(scenario()).splitlines()) == 2


def test_plugins_that_cannot_be_used_are_refused_before_anything_starts(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True)
    probes.add("one", nonsense=1)
    probes.add("two", start_delay="soon")

    async def scenario() -> str:
        with pytest.raises(ConfigError) as refused:
            Fleet(probes.config(), serving=True)
        return str(refused.value)

    message = run(scenario())
    assert "one: unknown key `nonsense`" in message
    assert "two: key `start_delay`" in message


def test_wrong_settings_of_an_isolated_server_are_told_as_well(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True, nonsense=1)

    async def scenario() -> None:
        with pytest.raises(StartError, match="probes.yaml:1: apart: unknown key `nonsense`"):
            async with started_in_process(probes.config()):
                pass

    run(scenario())


def test_a_process_that_dies_while_it_starts_is_told_with_what_it_wrote(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True)
    app = probes.folder / "resources_servers" / probes.implementation / "app.py"
    app.write_text("import os, sys\nprint('goodbye', file=sys.stderr, flush=True)\nos._exit(3)\n")

    async def scenario() -> str:
        with pytest.raises(StartError) as refused:
            async with started_in_process(probes.config()):
                pass
        return str(refused.value)

    message = run(scenario())
    assert "apart did not start: its process ended with exit status 3" in message
    assert "goodbye" in message


def test_stopping_is_bounded_whatever_a_plugin_does(probes: ProbeRun) -> None:
    probes.add("here", close_delay=300)
    probes.add("apart", isolated=True, close_delay=300)
    probes.add("stuck", isolated=True)

    async def scenario() -> list[int]:
        async with started_in_process(probes.config()) as servers:
            pids = [record.pids[0] for record in servers.records()[1:]]
            blocking = asyncio.ensure_future(ask(servers.client("stuck"), "/block"))
            await asyncio.sleep(0.2)
            began = time.monotonic()
        assert time.monotonic() - began < 10
        with pytest.raises(Exception):  # noqa: B017, PT011 - cut off, in whatever way
            await blocking
        return pids

    assert not any(map(is_alive, run(scenario())))


def test_what_an_isolated_server_started_ends_with_it(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True, helper=True, close_delay=300)

    async def scenario() -> int:
        async with started_in_process(probes.config()) as servers:
            helper: int = (await ask(servers.client("apart"), "/process"))["helper"]
            assert is_alive(helper)
            return helper

    helper = run(scenario())
    wait_until(lambda: not is_alive(helper))


def test_cancelling_the_start_leaves_nothing_behind(probes: ProbeRun) -> None:
    probes.add("apart", processes=2, start_delay=300)

    async def scenario() -> list[int]:
        fleet = Fleet(probes.config(), serving=False)
        starting = asyncio.ensure_future(fleet.start())
        try:
            await until(lambda: len(fleet.records()[0].pids) == 2)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            return fleet.records()[0].pids
        finally:
            await fleet.stop()

    assert not any(map(is_alive, run(scenario())))


def test_what_the_block_raises_comes_out_as_it_is(probes: ProbeRun) -> None:
    probes.add("apart", isolated=True)

    async def scenario() -> None:
        async with started_in_process(probes.config()):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(scenario())
