"""What servers log: what went wrong, where, and for which rollout."""

import asyncio
import logging
from typing import Any

import pytest

from rollgym.records import Failure, RolloutError, ToolError
from rollgym.servers import Episode, Response, Verdict
from rollgym.servers.context import working_for
from tests.cases import for_each
from tests.integration.servers.transports import Transport, over_both, reach
from tests.integration.servers.workshop import (
    Bench,
    Courier,
    Json,
    Order,
    Workshop,
    open_shop,
    seeded,
    task,
    workshop,
)


def about(record: logging.LogRecord) -> dict[str, Any]:
    names = ("server", "path", "rollout", "status")
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


@over_both
def test_an_error_is_logged_with_its_server_path_rollout_and_status(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    async def scenario() -> None:
        async with reach(workshop(), transport) as client:
            with working_for("12/3"), pytest.raises(ToolError):
                await client.post("/fail", {})

    asyncio.run(scenario())
    bug, record = caplog.records
    assert (bug.levelname, bug.exc_info is not None) == ("ERROR", True)
    assert (record.name, record.levelname) == ("rollgym.servers", "WARNING")
    assert about(record) == {
        "server": "workshop",
        "path": "/fail",
        "rollout": "12/3",
        "status": 502,
    }
    assert record.__dict__["seconds"] >= 0
    assert "the drawer is stuck" in record.getMessage()


@over_both
def test_what_is_in_order_or_the_callers_fault_is_not_logged(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    async def scenario() -> None:
        async with reach(workshop(), transport) as client:
            await client.post("/echo", {"words": "hello"})
            await client.post("/nowhere", {})
            await client.post("/reject", {"reason": "no"})

    asyncio.run(scenario())
    assert [record for record in caplog.records if record.name.startswith("rollgym")] == []


@over_both
def test_every_request_can_be_logged(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    caplog.set_level(logging.DEBUG, "rollgym.servers")

    async def scenario() -> None:
        async with open_shop(transport) as shop:
            with working_for("12/3"):
                await shop.run(task(["model"]))

    asyncio.run(scenario())
    assert [about(record) for record in caplog.records if record.name == "rollgym.servers"] == [
        {"server": server, "path": path, "rollout": "12/3", "status": 200}
        for server, path in (
            ("workshop", "/seed_session"),
            ("model", "/v1/responses"),
            ("workshop", "/verify"),
            ("agent", "/run"),
        )
    ]


@over_both
def test_a_bug_is_logged_with_its_traceback(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    async def scenario() -> None:
        server = workshop()

        def health() -> dict[str, Any]:
            raise ZeroDivisionError

        server.health = health  # type: ignore[method-assign]
        async with reach(server, transport) as client, asyncio.timeout(60):
            with working_for("12/3"), pytest.raises(RolloutError, match="ZeroDivisionError"):
                await client.call(
                    "/healthz", b"", error=RolloutError, any_status=True, method="GET"
                )
            await seeded(client)

    asyncio.run(scenario())
    bug, answer = caplog.records
    assert (bug.levelname, bug.getMessage()) == ("ERROR", "/healthz failed")
    assert bug.exc_info is not None
    assert about(bug) == {"server": "workshop", "path": "/healthz", "rollout": "12/3"}
    assert about(answer)["status"] == 500


class Clumsy(Courier):
    async def responses(self, params: Json, episode: Episode) -> Json:
        await episode.ask_model({"input": "go on"})
        return {"output": [], "usage": params["nothing"]}


@over_both
@for_each("broken", ["seed", "verify", "agent", "model"])
def test_a_bug_of_an_author_is_told_with_file_and_line(
    transport: Transport, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the failure that reaches the caller, and in the log of the server that has the bug."""
    caplog.clear()

    class Broken(Workshop):
        async def seed_session(self, task: Order) -> Bench:
            free = {} if broken == "seed" else {"bench": Bench()}
            return free["bench"]

        async def verify(self, task: Order, response: Response, state: Bench) -> Verdict:
            raise KeyError("scales")

    async def scenario() -> Failure:
        agent = Clumsy if broken == "agent" else Courier
        async with open_shop(transport, agent, Broken) as shop:

            async def confused(params: Json) -> bytes:
                return bytes(params["nothing"])

            if broken == "model":
                shop.model.answer = confused
            with pytest.raises(RolloutError, match="KeyError: ") as raised:
                await shop.run(task(["model"]))
            return Failure.of(raised.value)

    failure = asyncio.run(scenario())
    assert (failure.exception, failure.file) == ("KeyError", __file__)
    assert f'File "{__file__}", line {failure.line}, in ' in (failure.traceback or "")
    bugs = [record for record in caplog.records if record.exc_info]
    assert len(bugs) == 1
    assert bugs[0].exc_info
    assert isinstance(bugs[0].exc_info[1], KeyError)
