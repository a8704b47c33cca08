"""The head endpoint, and those who ask it."""

import asyncio
import json
import socket
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from omegaconf import DictConfig, OmegaConf

from rollgym.servers.config.instances import Address
from rollgym.servers.config.loading import load_config
from rollgym.servers.config.problems import ConfigError
from rollgym.servers.launch.fleet import Fleet, started_in_process
from rollgym.servers.launch.head import check_health, connected_to, fetch_records, head_listening
from rollgym.servers.launch.records import NoHeadError, ServerStatus, StartError
from tests.integration.servers.launch.probe import ProbeRun, ask
from tests.ports import free_port

TOKEN = "4f1c0b7e"


def test_the_head_lists_the_servers_before_and_after_they_are_ready(probes: ProbeRun) -> None:
    probes.add("here", api_key="sk-very-secret")
    probes.add("many", processes=2)
    head = Address(port=free_port())

    async def scenario() -> None:
        fleet = Fleet(probes.config(), serving=True)
        try:
            async with head_listening(head, fleet.records), aiohttp.ClientSession() as session:
                assert {r.status for r in await fetch_records(head)} == {ServerStatus.STARTING}
                await fleet.start()
                async with session.get(f"{head.url}/server_instances") as response:
                    listed = json.loads(await response.read())
                async with session.get(f"{head.url}/healthz") as response:
                    assert response.status == 200
        finally:
            await fleet.stop()
        here, many = listed
        assert here["name"] == "here"
        assert here["server_type"] == "resources_servers"
        assert here["implementation"] == probes.implementation
        assert here["url"] == f"http://{here['host']}:{here['port']}"
        assert here["config"]["api_key"] == "***"
        assert here["config_path"] == "probes.yaml"
        assert (many["status"], many["restarts"]) == ("ready", 0)
        assert len(many["urls"]) == len(many["pids"]) == 2

    asyncio.run(scenario())


def test_another_process_reaches_the_servers_through_the_head(probes: ProbeRun) -> None:
    probes.add("here")
    head = Address(port=free_port())

    async def scenario() -> None:
        fleet = Fleet(probes.config(), serving=True)
        try:
            async with head_listening(head, fleet.records):
                await fleet.start()
                records = await fetch_records(head)
                async with connected_to(records) as servers:
                    assert await ask(servers.client("here"), "/echo", x=2) == {"x": 2}
                    with pytest.raises(KeyError):
                        servers.client("there")
                    health = await check_health(records)
                    assert list(health.values()) == ["ok"]
        finally:
            await fleet.stop()
        assert set((await check_health(records)).values()) == {"nothing listens there"}

    asyncio.run(scenario())


def test_without_a_head_the_message_says_how_to_get_one() -> None:
    head = Address(port=free_port())
    with pytest.raises(NoHeadError) as refused:
        asyncio.run(fetch_records(head))
    assert str(refused.value).startswith(f"no ng_run answers at {head.url} (nothing listens there)")
    assert "start one with `ng_run" in str(refused.value)


def test_a_head_that_is_something_else_is_told() -> None:
    head = Address(port=free_port())

    async def scenario(path: str) -> str:
        async def hello(_: web.Request) -> web.Response:
            return web.Response(text="hello")

        application = web.Application()
        application.router.add_get(path, hello)
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, head.host, head.port).start()
        try:
            with pytest.raises(NoHeadError) as refused:
                await fetch_records(head)
            return str(refused.value)
        finally:
            await runner.cleanup()

    assert "is not an ng_run (HTTP 404)" in asyncio.run(scenario("/"))
    assert "is not an ng_run (JSON is malformed" in asyncio.run(scenario("/server_instances"))


def test_a_head_whose_port_was_taken_meanwhile_is_told() -> None:
    async def scenario(port: int) -> None:
        async with head_listening(Address(port=port), list):
            pass

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(StartError, match="another ng_run is probably running at"),
    ):
        asyncio.run(scenario(taken.getsockname()[1]))


def test_a_port_that_was_taken_meanwhile_is_told(probes: ProbeRun) -> None:
    probes.add("here", port=free_port())
    config = probes.config()

    async def scenario() -> None:
        with (
            socket.create_server(("127.0.0.1", config.instances[0].port or 0)),
            pytest.raises(StartError, match="probes.yaml:1: here: cannot listen on 127.0.0.1"),
        ):
            Fleet(config, serving=True)

    asyncio.run(scenario())


def test_clients_of_nemo_gym_find_the_servers(probes: ProbeRun) -> None:
    """As its collector does: the JSON string holds YAML, in which each server has an address."""
    probes.add("here", api_key="sk-very-secret", noise="\\${head_server} is a name")
    head = Address(port=free_port())

    async def scenario() -> None:
        fleet = Fleet(probes.config(), serving=True)
        try:
            async with head_listening(head, fleet.records), aiohttp.ClientSession() as session:
                await fleet.start()
                async with session.get(f"{head.url}/global_config_dict_yaml") as response:
                    text = (await response.read()).decode()
                config = OmegaConf.create(json.loads(text))
                assert isinstance(config, DictConfig)
                assert config.head_server == {"host": head.host, "port": head.port}
                [server] = next(iter(config["here"].values())).values()
                assert server.noise == "${head_server} is a name"
                assert "very-secret" not in text
                url = f"http://{server.host}:{server.port}"
                async with session.get(url) as response:
                    assert response.status == 200
                run = f"{url}/ng-rollout/0-1/echo"
                async with session.post(run, json={"x": 1}) as response:
                    assert await response.json() == {"x": 1}
                async with session.get(f"{head.url}/server_instances") as response:
                    assert {each["process_name"] for each in await response.json()} == {"here"}
        finally:
            await fleet.stop()

    asyncio.run(scenario())


def test_a_server_of_another_program_is_healthy_if_it_answers_at_all(probes: ProbeRun) -> None:
    statuses = {"/": 404}

    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=statuses.get(request.path, 404))

    async def scenario() -> None:
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        external = f"theirs: {{resources_servers: {{any: {{url: '{url}'}}}}}}"
        (probes.folder / "probes.yaml").write_text(external)
        records = Fleet(probes.config(), serving=True).records()
        try:
            assert await check_health(records) == {url: "ok"}
            statuses["/"] = 503
            assert await check_health(records) == {url: "HTTP 503"}
        finally:
            await runner.cleanup()

    asyncio.run(scenario())


def test_beyond_loopback_every_request_needs_the_token(probes: ProbeRun) -> None:
    everywhere = "0.0.0.0"
    probes.add("here", host=everywhere)
    probes.add("apart", host=everywhere, isolated=True)
    arguments = ["+config_paths=[probes.yaml]", f"+head_server.port={free_port()}"]
    with pytest.raises(ConfigError) as refused:
        load_config([*arguments, f"+head_server.host={everywhere}"], probes.folder)
    assert str(refused.value).count("there is no token") == 3
    (probes.folder / "env.yaml").write_text(f"server_token: {TOKEN}")
    config = load_config([*arguments, f"+head_server.host={everywhere}"], probes.folder)
    head = Address("127.0.0.2", config.options.head.port)

    async def scenario() -> None:
        fleet = Fleet(config, serving=True)
        try:
            async with head_listening(config.options.head, fleet.records, config.options.token):
                await fleet.start()
                for wrong in (None, "another"):
                    with pytest.raises(NoHeadError, match="set the same server_token"):
                        await fetch_records(head, wrong)
                records = await fetch_records(head, TOKEN)
                assert {urlsplit(each.url).hostname for each in records} == {head.host}
                assert set((await check_health(records, TOKEN)).values()) == {"ok"}
                assert set((await check_health(records)).values()) == {"HTTP 401"}
                async with connected_to(records, TOKEN) as servers:
                    for one, other in (("here", "apart"), ("apart", "here")):
                        seen = await ask(servers.client(one), "/ask", server=other, path="/process")
                        assert seen["pid"]
                external = {"any": {"url": records[0].url, "token": TOKEN}}
                described = json.dumps({"here": {"resources_servers": external}})
                (probes.folder / "probes.yaml").write_text(described)
                async with started_in_process(probes.config()) as others:
                    assert await ask(others.client("here"), "/echo", x=3) == {"x": 3}
                async with aiohttp.ClientSession(headers={"Authorization": "Bearer x"}) as session:
                    for path in ("/", "/healthz", "/echo"):
                        async with session.get(records[0].url + path) as response:
                            assert response.status == 401
        finally:
            await fleet.stop()

    asyncio.run(scenario())
