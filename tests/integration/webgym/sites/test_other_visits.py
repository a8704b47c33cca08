import asyncio
import contextlib
import time
from typing import Any

import aiohttp
import pytest

from tests.integration.webgym.sites.visiting import LOOPBACK, Page, Visitor, visit
from webgym.sites.application import serving
from webgym.sites.slow import LOG

STAY = {
    "cabin": "tern-loft",
    "arrival": "2030-06-06",
    "departure": "2030-06-10",
    "guests": "2",
}
GUEST = {
    "first_name": "Nils",
    "last_name": "Berg",
    "email": "nils@example.com",
    "phone": "0441 555 120",
    "arrival_time": "16",
    "extra-firewood": "1",
}


def test_a_cabin_is_booked_in_three_steps_and_cancelled_again() -> None:
    async def act(one: Visitor) -> tuple[list[Page], dict[str, Any]]:
        pages = [
            await one.get("/booking/book/review"),
            await one.post("/booking/book/dates", {**STAY, "departure": "2030-06-07"}),
            await one.post("/booking/book/dates", STAY),
            await one.post("/booking/book/guests", GUEST),
            await one.post("/booking/book/review", {}),
            await one.post("/booking/book/review", {"terms": "1"}),
        ]
        reference = pages[-1].url.rpartition("/")[2]
        lookup = {"reference": reference.lower(), "last_name": "BERG"}
        pages += [
            await one.get("/booking/cabin/tern-loft?month=2030-06"),
            await one.post("/booking/manage", {**lookup, "last_name": "Born"}),
            await one.post("/booking/manage", lookup),
            await one.post(f"/booking/manage/{reference}/cancel", {"reason": "ill"}),
            await one.get(f"/booking/manage/{reference}/cancel"),
        ]
        return pages, await one.truth()

    pages, truth = visit(act)
    booking = truth["booking"]["bookings"][1]
    reference = booking["reference"]
    assert [page.url for page in pages] == [
        "/booking/book/dates",
        "/booking/book/dates",
        "/booking/book/guests",
        "/booking/book/review",
        "/booking/book/review",
        f"/booking/confirmed/{reference}",
        "/booking/cabin/tern-loft?month=2030-06",
        "/booking/manage",
        f"/booking/manage/{reference}",
        f"/booking/manage/{reference}",
        f"/booking/manage/{reference}",
    ]
    assert "Please correct" not in pages[0].body
    assert "The shortest stay is 2 nights." in pages[1].body
    assert "Please accept the house rules." in pages[4].body
    assert "Thu 6 Jun 2030: taken" in pages[6].body
    assert "no booking with this reference" in pages[7].body
    assert (booking["total"], booking["status"], booking["reason"]) == (396, "cancelled", "ill")


def test_only_bookings_that_were_made_or_found_can_be_seen() -> None:
    async def act(one: Visitor) -> list[Page]:
        before = await one.get("/booking/manage/FC-20417")
        refused = await one.post("/booking/manage/FC-20417/cancel", {"reason": "ill"})
        await one.post("/booking/manage", {"reference": "FC-20417", "last_name": "Dahl"})
        return [before, refused, await one.get("/booking/manage/FC-20417")]

    pages = visit(act)
    assert [page.status for page in pages] == [404, 404, 200]
    assert "Signe Dahl" in pages[2].body


def test_free_cabins_are_shown_for_dates() -> None:
    page = visit(
        lambda one: one.get("/booking/cabins?arrival=2030-06-10&departure=2030-06-13&guests=4")
    )
    assert "1 of 6 cabins are free" in page.body
    assert page.body.count("Not free") == 5


def test_the_wall_stands_everywhere_and_no_answer_is_right() -> None:
    async def act(one: Visitor) -> tuple[list[Page], dict[str, Any]]:
        pages = [await one.get("/captcha/"), await one.get("/captcha/concerts/july?x=1")]
        pages += [await one.post("/captcha/verify") for _ in range(3)]
        return pages, await one.truth()

    pages, truth = visit(act)
    assert [page.status for page in pages] == [403, 403, 200, 200, 200]
    assert all("Verify you are human" in page.body for page in pages[:2])
    assert all('"verified":false' in page.body for page in pages[2:])
    assert "Too many attempts" in pages[4].body
    assert truth["captcha"] == {"walls": 2, "attempts": 3}


def test_a_late_page_is_late() -> None:
    async def act(one: Visitor) -> tuple[float, Page]:
        begin = time.monotonic()
        page = await one.get("/slow/forecast?seconds=0.4")
        return time.monotonic() - begin, page

    seconds, page = visit(act)
    assert seconds >= 0.4
    assert "23:56" in page.body


def test_the_log_comes_bit_by_bit() -> None:
    async def acting() -> list[bytes]:
        async with (
            serving(LOOPBACK, 0) as base,
            aiohttp.ClientSession() as session,
            session.get(f"{base}/slow/log?seconds=0.5") as answer,
        ):
            return [chunk async for chunk, _ in answer.content.iter_chunks()]

    chunks = asyncio.run(acting())
    assert len(chunks) >= len(LOG)
    assert b"22:45" in b"".join(chunks)


def test_storms_come_a_few_at_a_time_to_the_last() -> None:
    async def act(one: Visitor) -> tuple[Page, Page, dict[str, Any]]:
        first, last = await one.get("/slow/data/storms"), await one.get("/slow/data/storms?from=56")
        return first, last, await one.truth()

    first, last, truth = visit(act)
    assert '"last":false' in first.body
    assert '"last":true' in last.body
    assert truth["slow"]["entries_loaded"] == 60


def test_the_sites_stop_although_visitors_wait() -> None:
    async def acting() -> float:
        async with aiohttp.ClientSession() as session:
            async with serving(LOOPBACK, 0) as base:
                held = [
                    asyncio.ensure_future(session.get(f"{base}/slow/{path}"))
                    for path in ("data/never", "held-up", "data/picture?seconds=120", "endless")
                ]
                await held[-1]  # its first part has come, so the others were sent
                began = time.monotonic()
            stopped = time.monotonic() - began
            for each in held:
                each.cancel()
            await asyncio.gather(*held, return_exceptions=True)
            return stopped

    assert asyncio.run(acting()) < 25  # the visitors would wait for 30 s and more


def test_controls_keep_their_values() -> None:
    async def act(one: Visitor) -> tuple[list[int], dict[str, Any]]:
        pages = [
            await one.post("/widgets/set", {"name": "lamp", "value": "on"}),
            await one.post("/widgets/set", {"name": "lamp", "value": "off"}),
            await one.post("/widgets/set", {"name": "rocket", "value": "on"}),
        ]
        return [page.status for page in pages], await one.truth()

    statuses, truth = visit(act)
    assert statuses == [200, 200, 400]
    assert truth["widgets"] == {"values": {"lamp": "off"}, "changes": 2}


def test_a_broken_connection_breaks() -> None:
    async def act(one: Visitor) -> None:
        for path in ("reset", "hang-up", "cut-short"):
            with pytest.raises(aiohttp.ClientError):
                await one.get(f"/broken/{path}")

    visit(act)


def test_redirects_lead_in_circles_or_to_an_end() -> None:
    async def act(one: Visitor) -> tuple[Page, dict[str, Any]]:
        with pytest.raises(aiohttp.TooManyRedirects):
            await one.get("/broken/loop")
        page = await one.get("/broken/chain?left=4")
        return page, await one.truth()

    page, truth = visit(act)
    assert page.url == "/broken/"
    assert truth["broken"]["redirects"] >= 15


def test_errors_downloads_and_passwords_are_served_and_counted() -> None:
    async def act(one: Visitor) -> tuple[list[Page], dict[str, Any]]:
        paths = ("status/500", "status/599", "sign-in", "file/manifest.csv", "file/a%22.csv")
        pages = [await one.get(f"/broken/{path}") for path in paths]
        return pages, await one.truth()

    pages, truth = visit(act)
    assert [page.status for page in pages] == [500, 599, 401, 200, 404]
    assert "attachment" in pages[3].headers["Content-Disposition"]
    assert truth["broken"]["downloads"] == 1
    assert truth["broken"]["failures"] == 3


def test_a_big_page_is_as_big_as_asked_for() -> None:
    page = visit(lambda one: one.get("/broken/big?megabytes=1"))
    assert 900_000 < len(page.body) < 1_100_000


def test_the_web_socket_echoes_messages() -> None:
    async def acting() -> str:
        async with (
            serving(LOOPBACK, 0) as base,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{base}/broken/line") as line,
        ):
            await line.send_str("ahoy")
            return await line.receive_str(timeout=10)

    assert asyncio.run(acting()) == "ahoy"


def test_pressed_buttons_are_recorded() -> None:
    async def act(one: Visitor) -> tuple[Page, dict[str, Any]]:
        page = await one.post("/broken/press", {"name": "inner", "text": "salt"})
        return page, await one.truth()

    page, truth = visit(act)
    assert "Heard: inner (salt)" in page.body
    assert (truth["broken"]["pressed"], truth["broken"]["texts"]) == (["inner"], ["salt"])


def test_a_client_that_disconnects_early_causes_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    paths = (
        "slow/log?seconds=0.3",
        "slow/endless?seconds=2",
        "slow/forecast?seconds=0.3",
        "broken/big?megabytes=50",
        "broken/reset",
        "broken/hang-up",
        "broken/cut-short",
        "broken/line",
    )
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )

    async def disconnect(host: str, port: str, path: str) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        headers = upgrade if path.endswith("line") else ""
        writer.write(f"GET /{path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(reader.read(100), 0.2)
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def acting() -> None:
        async with serving(LOOPBACK, 0) as base:
            host, _, port = base.removeprefix("http://").partition(":")
            await asyncio.gather(*(disconnect(host, port, path) for path in paths))
            async with aiohttp.ClientSession() as session:
                later = f"{base}/slow/forecast?seconds=0.6"  # the handlers end in this time
                async with session.get(later) as answer:
                    assert answer.status == 200

    asyncio.run(acting())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
