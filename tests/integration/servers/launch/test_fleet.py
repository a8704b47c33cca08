"""The servers of a run, started and stopped as one."""

import asyncio
import os

import pytest

from rollgym.engine import run
from rollgym.servers.config.problems import ConfigError
from rollgym.servers.launch.fleet import Fleet, started_in_process
from rollgym.servers.launch.records import ServerStatus, StartError
from tests.cases import for_each
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


def test_servers_in_processes_are_called_hide_credentials_and_end_with_the_block(
    probes: ProbeRun,
) -> None:
    probes.add("here")
    probes.add("apart", isolated=True, api_key="sk-very-secret", helper=True, close_delay=300)
    probes.add("many", processes=2)
    pids: set[int] = set()

    async def scenario() -> None:
        async with started_in_process(probes.config()) as servers:
            client, records = (
                servers.client("apart"),
                {each.name: each for each in servers.records()},
            )
            own = await ask(client, "/process")
            back = await ask(client, "/ask", server="here", path="/process")
            across = await ask(client, "/ask", server="many", path="/process")
            assert back["pid"] == os.getpid() != own["pid"]
            assert across["pid"] in records["many"].pids
            apart = records["apart"]
            assert (apart.pid, apart.pids, apart.urls) == (own["pid"], [own["pid"]], [apart.url])
            assert apart.config["api_key"] == "***"
            for file in ("cmdline", "environ"):
                with open(f"/proc/{apart.pid}/{file}", "rb") as shown:  # noqa: ASYNC230, PTH123
                    assert b"secret" not in shown.read()
            many = servers.client("many")
            turns = [(await ask(many.one(), "/process"))["pid"] for _ in range(4)]
            assert sorted(set(turns)) == sorted(records["many"].pids)
            assert turns[:2] == turns[2:]
            assert len(set(records["many"].urls)) == 2
            pids.update(own.values(), turns)
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(scenario())
    wait_until(lambda: not any(map(is_alive, pids)))


def test_a_server_that_fails_to_start_is_named_and_the_others_are_stopped(
    probes: ProbeRun,
) -> None:
    probes.add("fine", isolated=True)
    probes.add("broken", fail_to_start="no database")

    async def scenario() -> list[int]:
        fleet = Fleet(probes.config(), serving=False)
        try:
            with pytest.raises(StartError, match="broken did not start: RuntimeError: no database"):
                await fleet.start()
            return [pid for record in fleet.records() for pid in record.pids if pid != os.getpid()]
        finally:
            await fleet.stop()

    assert not any(map(is_alive, run(scenario())))


@for_each("isolated", [False, True])
def test_a_server_that_is_not_ready_in_time_is_named(probes: ProbeRun, isolated: bool) -> None:
    probes.add("quick")
    probes.add("slow", isolated=isolated, start_delay=300)

    async def scenario() -> str:
        fleet = Fleet(probes.config(), serving=False)
        try:
            with pytest.raises(StartError) as refused:
                await fleet.start(2.0)
            return str(refused.value)
        finally:
            await fleet.stop()

    message = run(scenario())
    assert "slow was not ready within " in message
    assert "quick" not in message


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
        with pytest.raises(Exception):  # noqa: B017, PT011 - cut off, in whatever way
            await blocking
        return pids

    assert not any(map(is_alive, run(scenario())))


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
