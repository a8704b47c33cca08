import asyncio
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from rollgym.viewer import ViewerError
from rollgym.viewer.server import DATA_POLICY, HEADERS, PAGE_POLICY, serving
from tests.integration.viewer.browsing import LOOPBACK, PATIENCE, Browser, browse, browsing
from tests.integration.viewer.rollouts import rollout, write

LISTED = "/api/s/x/rollouts"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "x.jsonl", [rollout()])


def test_only_a_host_of_this_machine_is_answered(path: Path) -> None:
    for host, status in [
        ("localhost:1", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("LOCALHOST", 200),
        ("evil.example:11001", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("127.0.0.1:80@evil.example", 403),
        ("evil.example#localhost", 403),
        ("localhost.", 403),
        ("[::1", 403),
        ("", 403),
    ]:
        for answer in browse(path, LISTED, "/api/sources", "/static/none.js", Host=host):
            assert (answer.status == 403) is (status == 403)
            if status == 403:
                assert "weather" not in answer.text
                assert "requests to localhost and 127.0.0.1" in answer.text


def test_a_request_with_the_origin_of_another_page_is_rejected(path: Path) -> None:
    for origin, status in [
        ("http://localhost:7", 200),
        ("HTTP://localhost:7", 403),
        ("http://localhost", 403),
        ("http://localhost:8", 403),
        ("http://evil.example", 403),
        ("http://localhost:7.evil.example", 403),
        ("file://", 403),
        ("null", 403),
        ("", 403),
    ]:
        [answer] = browse(path, LISTED, Host="localhost:7", Origin=origin)
        assert answer.status == status
        if status == 403:
            assert "Another site sent this request" in answer.error


def test_what_another_site_fetches_is_rejected_and_a_link_from_there_is_not(path: Path) -> None:
    for site, mode, target, status in [
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
        ("cross-site", "navigate", "document", 200),
        ("same-site", "navigate", "document", 200),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "no-cors", "image", 403),
        ("cross-site", "no-cors", "script", 403),
        ("cross-site", "cors", "empty", 403),
        ("same-site", "cors", "empty", 403),
        ("same-site", "no-cors", "empty", 403),
    ]:
        fetched = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": mode, "Sec_Fetch_Dest": target}
        [answer] = browse(path, LISTED, **fetched)
        assert answer.status == status


def test_only_reading_is_possible(path: Path) -> None:
    async def asking() -> None:
        async with browsing(path) as browser:
            for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
                answer = await browser.get(LISTED, method=method)
                assert answer.status == 405
                assert answer.headers["Allow"] == "GET, HEAD"
            answer = await browser.get(LISTED, method="HEAD")
            assert (answer.status, answer.body) == (200, b"")

    asyncio.run(asking())


def test_every_answer_says_what_a_browser_may_do_with_it(path: Path) -> None:
    urls = ("/", LISTED, "/api/none", "/none", "/api/s/x/rollouts/0-1/raw", "/api/s/y/overview")
    for url, answer in zip(urls, browse(path, *urls), strict=True):
        assert HEADERS.items() <= dict(answer.headers).items(), url
        policy = PAGE_POLICY if url in ("/", "/none") else DATA_POLICY
        assert answer.headers["Content-Security-Policy"] == policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_beyond_loopback_the_token_of_the_url_is_asked_for(path: Path) -> None:
    async def asking() -> None:
        async with serving([path], "0.0.0.0", 0) as printed:
            token = URL(printed).query["token"]
            root = f"http://127.0.0.1:{URL(printed).port}"
            jar = aiohttp.CookieJar(unsafe=True)  # keeps cookies of addresses, as browsers do
            async with aiohttp.ClientSession(cookie_jar=jar) as session:
                browser = Browser(root, session)
                for wrong in ("", "?token=", "?token=%C3%A4", f"?token={token[1:]}"):
                    for url in ("/", LISTED, "/static/main.js", "/api/events"):
                        assert (await browser.get(url + wrong)).status == 403
                given = await browser.get(f"//evil.example/a?token={token}&task=1")
                assert given.status == 303
                assert given.headers["Location"] == "/evil.example/a?task=1"
                assert "HttpOnly" in given.headers["Set-Cookie"]
                assert "SameSite=Lax" in given.headers["Set-Cookie"]
                assert (await browser.get(LISTED)).status == 200
                assert (await browser.get(LISTED, Origin="http://evil.example")).status == 403
            async with aiohttp.ClientSession() as session:
                assert (await Browser(root, session).get(LISTED)).status == 403
            assert await status_of_odd_cookie(URL(printed).port or 0) == b"403"

    asyncio.run(asking())


async def status_of_odd_cookie(port: int) -> bytes:
    """Of a request whose cookie is not a text."""
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    async with asyncio.timeout(PATIENCE):
        cookie = b"Cookie: rollgym_viewer_%d=\xff" % port
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n%s\r\nConnection: close\r\n\r\n" % cookie)
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    return answer.split()[1]


def test_a_loopback_url_has_no_token(path: Path) -> None:
    async def asking(host: str) -> None:
        async with serving([path], host, 0) as root, aiohttp.ClientSession() as session:
            assert not URL(root).query
            assert (await Browser(root, session).get("/api/sources")).status == 200

    for host in (LOOPBACK, "127.0.0.2"):
        asyncio.run(asking(host))


def test_a_second_viewer_has_another_port_and_a_port_that_is_taken_is_rejected(path: Path) -> None:
    async def twice() -> None:
        async with serving([path], LOOPBACK, 0) as one, serving([path], LOOPBACK, 0) as other:
            assert one != other
            with pytest.raises(
                ViewerError, match=r"cannot listen .* choose another port with --port"
            ):
                async with serving([path], LOOPBACK, URL(one).port or 0):
                    pass

    asyncio.run(twice())
