import asyncio
from typing import Any

import aiohttp
import pytest

from tests.integration.webgym.sites.visiting import LOOPBACK, Page, Visitor, visit, visitor
from webgym.sites import COOKIE
from webgym.sites.application import serving
from webgym.sites.errors import SitesError


def test_the_first_page_names_the_session_and_its_visitor_can_read_the_state() -> None:
    async def act(one: Visitor) -> tuple[Page, Page, dict[str, Any]]:
        first, second = await one.get("/shop/"), await one.get("/encyclopedia/wiki/Merrow?x=1")
        return first, second, await one.truth()

    first, second, truth = visit(act)
    assert f"{COOKIE}={truth['session']}; Path=/; HttpOnly; SameSite=Lax" in str(
        first.headers["Set-Cookie"]
    )
    assert "Set-Cookie" not in second.headers
    assert truth["visits"] == [
        {"path": "/shop/", "query": ""},
        {"path": "/encyclopedia/wiki/Merrow", "query": "x=1"},
    ]
    assert truth["encyclopedia"]["read"] == ["Merrow"]


def test_a_session_can_be_chosen_and_asked_for_from_outside() -> None:
    async def act(one: Visitor) -> tuple[Page, dict[str, Any]]:
        page = await one.get("/shop/products?session=Mine1&q=lamp&sort=price")
        async with visitor(one.base) as verifier:
            return page, await verifier.truth("Mine1")

    page, truth = visit(act)
    assert page.url == "/shop/products?q=lamp&sort=price"
    assert truth["shop"]["searches"] == ["lamp"]
    assert truth["lost"] is False


def test_opening_the_start_again_continues_the_session() -> None:
    async def act(one: Visitor) -> dict[str, Any]:
        await one.get("/shop/?session=a")
        await one.post("/shop/saved/toggle", {"product": "wool-picnic-blanket"})
        await one.get("/shop/?session=a")
        return await one.truth("a")

    assert visit(act)["shop"]["saved"] == ["wool-picnic-blanket"]


def test_a_session_with_an_odd_name_is_rejected() -> None:
    async def act(one: Visitor) -> list[Page]:
        names = ("", "a b", "../x", "a%00", "x" * 65, "<b>")
        return [await one.get("/shop/", params={"session": name}) for name in names]

    for page in visit(act):
        assert page.status == 400
        assert "letters and digits" in page.body


def test_an_odd_cookie_is_replaced() -> None:
    async def act(one: Visitor) -> Page:
        return await one.get("/shop/", headers={"Cookie": f'{COOKIE}="<script>"'})

    page = visit(act)
    assert page.status == 200
    assert "Set-Cookie" in page.headers


def test_choosing_a_session_redirects_to_no_other_host() -> None:
    async def act(one: Visitor) -> list[Page]:
        paths = ("//evil.example/x", "/\\evil.example", "//evil.example/shop/")
        return [await one.get(f"{path}?session=a", allow_redirects=False) for path in paths]

    for page in visit(act):
        location = page.headers.get("Location", "/")
        assert location.startswith("/")
        assert location[1:2] not in ("/", "\\")


def test_visitors_share_nothing() -> None:
    async def act(one: Visitor) -> tuple[dict[str, Any], dict[str, Any]]:
        async with visitor(one.base) as other:
            await one.get("/shop/")
            await other.get("/shop/")
            await one.post("/shop/saved/toggle", {"product": "wool-picnic-blanket"})
            return await one.truth(), await other.truth()

    first, second = visit(act)
    assert first["session"] != second["session"]
    assert first["shop"]["saved"]
    assert second["shop"]["saved"] == []


def test_asking_for_the_state_makes_no_session() -> None:
    async def act(one: Visitor) -> list[Page]:
        return [await one.get(path) for path in ("/_truth", "/_truth/nobody", "/_truth/a-b")]

    pages = visit(act)
    assert [page.status for page in pages] == [404, 404, 404]
    assert all("Set-Cookie" not in page.headers for page in pages)


def test_a_session_can_be_reset() -> None:
    async def act(one: Visitor) -> list[Any]:
        unnamed = await one.post("/_reset")
        await one.get("/shop/?session=a")
        await one.post("/shop/saved/toggle", {"product": "wool-picnic-blanket"})
        own = await one.post("/_reset")
        after = await one.truth("a")
        await one.post("/shop/saved/toggle", {"product": "wool-picnic-blanket"})
        async with visitor(one.base) as verifier:
            await verifier.post("/_reset/a")
            return [unnamed.status, own.status, after, await verifier.truth("a")]

    unnamed, own, after, again = visit(act)
    assert (unnamed, own) == (400, 200)
    assert after["shop"]["saved"] == again["shop"]["saved"] == []
    assert after["visits"] == []


def test_a_session_from_before_a_restart_is_marked_as_lost() -> None:
    async def acting() -> tuple[dict[str, Any], dict[str, Any]]:
        async with aiohttp.ClientSession(cookies={COOKIE: "a"}) as session:
            async with serving(LOOPBACK, 0) as base:
                one = Visitor(base, session)
                await one.get("/shop/")
                with_cookie = await one.truth("a")
            async with serving(LOOPBACK, 0) as base:
                one = Visitor(base, session)
                await one.get("/shop/?session=a")
                return with_cookie, await one.truth("a")

    assert [truth["lost"] for truth in asyncio.run(acting())] == [True, True]


def test_pictures_styles_and_missing_pages_have_no_session() -> None:
    async def act(one: Visitor) -> list[Page]:
        paths = (
            "/shop/static/shop.css",
            "/shop/picture/cast-iron-skillet.svg",
            "/nowhere",
            "/shop/static/../routes.py",
            "/shop/static/%2e%2e%2froutes.py",
        )
        return [await one.get(path) for path in paths]

    pages = visit(act)
    assert [page.status for page in pages] == [200, 200, 404, 404, 404]
    assert all("Set-Cookie" not in page.headers for page in pages)


def test_an_address_that_cannot_be_used_is_rejected() -> None:
    async def acting() -> None:
        async with serving(LOOPBACK, 0) as base:
            port = int(base.rpartition(":")[2])
            with pytest.raises(SitesError, match=f"port {port} .*--port"):
                async with serving(LOOPBACK, port):
                    pass
        with pytest.raises(SitesError, match="--host"):
            async with serving("203.0.113.7", 0):
                pass

    asyncio.run(acting())
