"""What is not answered, over real HTTP: wrong requests, and those who may not ask."""

import aiohttp

from tests.cases import for_each
from tests.integration.webgym.browser.server.fake_pool import FakePool
from tests.integration.webgym.browser.server.harness import (
    Topology,
    client_of,
    over_both,
    reached,
    run,
    server,
)
from webgym.browser.routes import LARGEST_BODY, ROUTES

TOKEN = "the-token-of-this-test"


@over_both
@for_each(
    ("body", "message"),
    [
        (b"", "the body must be a JSON object"),
        (b"[1]", "the body is invalid: Expected `object`"),
        ({"visit_page": {"url": "x"}}, "instance_id is missing"),
        ({"instance_id": "LEASED"}, "no command: give one of visit_page"),
        ({"instance_id": "LEASED", "visit_pag": {}}, "did you mean visit_page?"),
        ({"instance_id": "LEASED", "frobnicate": {}}, "unknown command 'frobnicate': the commands"),
        ({"instance_id": "LEASED", "visit_page": {}}, "visit_page: Object missing"),
        ({"instance_id": "LEASED", "back": {}, "page_up": {}}, "one command at a time"),
        ({"instance_id": "LEASED", "back": {}, "deadline_seconds": 900}, "deadline_seconds"),
    ],
)
def test_wrong_bodies_are_refused_by_name(topology: Topology, body: object, message: str) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool()) as client:
            lease = await client.lease()
            if isinstance(body, dict) and "instance_id" in body:
                told = await client.ask("POST", "/execute", {**body, **lease})
            else:
                told = await client.ask("POST", "/execute", body)
            assert (told.status, told.kind) == (400, "bad_request")
            assert message in told.message

    run(scenario())


@over_both
def test_wrong_requests_are_refused_by_name(topology: Topology) -> None:
    async def scenario() -> None:
        async with reached(topology, FakePool()) as client:
            lease = await client.lease()
            for method, path, query, status, message in (
                (
                    "GET",
                    "/gett",
                    {},
                    404,
                    "unknown path /gett: the routes are POST /get, POST /reset",
                ),
                ("GET", "/get", {}, 405, "/get takes POST, not GET"),
                ("POST", "/get", {"lifetime_min": 3}, 400, "did you mean lifetime_mins?"),
                ("POST", "/get", {"lifetime_mins": 0}, 400, "lifetime_mins"),
                ("POST", "/get", {"wait_seconds": 601}, 400, "wait_seconds"),
                ("POST", "/get", {"instance_id": "short"}, 400, "instance_id"),
                ("POST", "/reset", {"node": lease["node"]}, 400, "instance_id is missing"),
                ("GET", "/screenshot", {**lease, "fromat": "jpeg"}, 400, "did you mean format?"),
                ("GET", "/screenshot", {**lease, "format": "gif"}, 400, "format"),
                ("GET", "/info", {"a": 1}, 400, "it takes none"),
            ):
                told = await client.ask(method, path, **query)
                assert (told.status, told.kind) == (status, "bad_request")
                assert message in told.message
            large = await client.ask("POST", "/execute", b" " * (LARGEST_BODY + 1))
            assert (large.status, large.kind) == (413, "bad_request")

    run(scenario())


@over_both
def test_the_token_is_asked_for_everywhere(topology: Topology) -> None:
    async def scenario() -> None:
        async with (
            reached(topology, FakePool(), TOKEN) as client,
            aiohttp.ClientSession() as http,
        ):
            lease = await client.lease()
            for headers in ({}, {"x_api_key": "wrong"}):
                stranger = type(client)(http, client.url, **headers)
                for path, method in ROUTES.items():
                    told = await stranger.ask(method, path, {**lease, "back": {}}, **lease)
                    if path == "/healthz":
                        assert told.status == 200
                    else:
                        assert (told.status, told.kind) == (401, "unauthorized")
            assert (await client.visit(lease, "x")).status == 200

    run(scenario())


def test_pages_of_the_web_are_not_answered() -> None:
    async def scenario() -> None:
        async with server(FakePool()) as served, aiohttp.ClientSession() as http:
            for headers in (
                {"Origin": "https://attacker.example"},
                {"Host": "attacker.example"},
                {"Sec-Fetch-Site": "cross-site"},
            ):
                told = await served.client(http, **headers).ask("POST", "/get")
                assert (told.status, told.kind) == (403, "unauthorized")

    run(scenario())


def test_a_server_without_a_master_takes_no_nodes() -> None:
    async def scenario() -> None:
        async with client_of(FakePool(), role="node", master="http://127.0.0.1:9") as client:
            body = {"url": "http://127.0.0.1:8", "boot": "b", "capacity": 1, "available": 1}
            told = await client.ask("POST", "/register", body)
            assert (told.status, told.kind) == (400, "bad_request")
            assert "--role master" in told.message

    run(scenario())


@for_each(
    ("said", "message"),
    [
        ({"url": "file:///etc/passwd"}, "is not the URL of a server"),
        ({"url": "http://10.1.2.3:8080"}, "without a token only nodes on this machine"),
        ({"capacity": -1}, "Expected `int` >= 0"),
        ({"boot": ""}, "boot"),
    ],
)
def test_a_wrong_registration_is_refused(said: dict[str, object], message: str) -> None:
    async def scenario() -> None:
        async with client_of(None, role="master") as client:
            right = {"url": "http://127.0.0.1:8", "boot": "b", "capacity": 1, "available": 1}
            told = await client.ask("POST", "/register", {**right, **said})
            assert (told.status, told.kind) == (400, "bad_request")
            assert message in told.message
            assert await client.nodes() == []

    run(scenario())
