"""Sessions as real sites need them: how they present themselves, and what they start with."""

import asyncio
import base64

import msgspec
import pytest
from aiohttp import web

from tests.e2e.browsing import Server, Visitor, html, size_of
from webgym.browser.contract.commands import ClickCoords, PageDown, VisitPage
from webgym.browser.contract.errors import BadRequestError
from webgym.browser.contract.profile import (
    HttpCredentials,
    SessionProfile,
    StorageState,
    StoredCookie,
    StoredItem,
    StoredOrigin,
    UpstreamProxy,
    ViewportSettings,
)

SHOWN = """JSON.stringify([navigator.userAgent, navigator.language, new Date(0).getTimezoneOffset(),
  (1234.5).toLocaleString(), innerWidth, innerHeight, screen.width])"""
IDENTITY = SHOWN.rpartition(", innerWidth")[0] + "])"
WORKER = f"postMessage({IDENTITY})"
PAGE = f"""<title>Me</title><body style="height:3000px"><p>{{}}</p>
<script>document.body.append({SHOWN});
new Worker("/worker.js").onmessage = ({{ data }}) => document.body.append("; worker " + data);
</script>"""


def test_a_session_has_the_size_language_time_zone_and_user_agent_that_its_client_asks_for(
    browser: Server,
) -> None:
    profile = SessionProfile(
        viewport=ViewportSettings(width=800, height=1100),
        locale="de-DE",
        timezone="Asia/Tokyo",
        user_agent="Rollgym/1.0 (test)",
    )
    headers: dict[str, tuple[str, str]] = {}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        headers[request.path] = (
            request.headers["User-Agent"],
            request.headers.get("Accept-Language", ""),
        )
        if request.path == "/worker.js":
            return web.Response(text=WORKER, content_type="text/javascript")
        return html(PAGE)

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= {"/": answer, "/worker.js": answer}
        async with visitor.another(profile) as other:
            shown = await other.visit()
            assert (shown.page.width, shown.page.height) == size_of(shown.screenshot) == (800, 1100)
            size = await other.session.metadata()
            assert (size.width, size.height) == (800, 1100)
            text = await other.text()
            mine = '["Rollgym/1.0 (test)","de-DE",-540,"1.234,5"'
            assert f"{mine},800,1100,800]" in text
            assert '; worker ["Rollgym/1.0 (test)",' in text
            assert ',-540,"1.234,5"]' in text
            for path in ("/", "/worker.js"):
                assert headers[path][0] == "Rollgym/1.0 (test)"
                assert headers[path][1].startswith("de-DE,de")
            assert (await other.step(PageDown(full_page=True))).page.scroll_y == 1050
            await other.step(ClickCoords(790, 1090))
            problem = await other.session.step(ClickCoords(900, 100))
            assert problem.error is not None
            assert "800 x 1100" in problem.error.message
        usual = await visitor.visit()
        assert size_of(usual.screenshot) == (1280, 768)
        assert "Rollgym" not in await visitor.text()

    browser.browse(scenario)


def test_a_session_starts_from_saved_cookies_and_storage_without_asking_the_site(
    browser: Server,
) -> None:
    page = """<title>State</title><script>
      document.write(document.cookie, " ", JSON.stringify(localStorage));
      if (location.pathname === "/login") { document.cookie = "user=ann; max-age=999";
        localStorage.setItem("cart", "3 pears"); }</script>"""

    async def scenario(visitor: Visitor) -> None:
        site = visitor.site
        site.pages |= {"/": page, "/login": page}
        await visitor.visit("/login")
        await visitor.step(VisitPage("about:blank"))
        before = len(site.asked)
        saved = await visitor.session.storage_state()
        assert saved.origins == (StoredOrigin(site.url, (StoredItem("cart", "3 pears"),)),)
        assert [(each.name, each.value) for each in saved.cookies] == [("user", "ann")]
        given = StorageState(
            (*saved.cookies, StoredCookie(name="theme", value="dark", url=site.url)), saved.origins
        )
        async with visitor.another(SessionProfile(storage_state=given)) as other:
            assert len(site.asked) == before
            shown = await other.visit("/")
            assert shown.page.tabs == 1
            text = await other.text()
            assert "user=ann" in text
            assert "theme=dark" in text
            assert '{"cart":"3 pears"}' in text
            again = await other.session.storage_state()
            assert again.origins == saved.origins
        async with visitor.another() as other:
            await other.visit("/")
            assert "ann" not in await other.text()

    browser.browse(scenario)


def test_a_site_that_asks_for_a_password_gets_it_only_at_its_origin(browser: Server) -> None:
    wanted = "Basic " + base64.b64encode(b"ann:pears").decode()
    asked: list[str | None] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        given = request.headers.get("Authorization")
        asked.append(given)
        if given == wanted:
            return html('<title>Welcome</title><a href="/inner">In</a>')
        response = html("<title>Who?</title>", 401)
        response.headers["WWW-Authenticate"] = 'Basic realm="all"'
        return response

    async def scenario(visitor: Visitor) -> None:
        site = visitor.site
        site.pages |= {"/": answer, "/inner": answer}
        ann = HttpCredentials(username="ann", password="pears", origin=site.url)
        async with visitor.another(SessionProfile(http_credentials=ann)) as other:
            assert (await other.visit()).page.title == "Welcome"
            assert (await other.click("In")).page.title == "Welcome"
            marked = await other.step()
            assert marked.page.status == 200
        for wrong in (
            HttpCredentials(username="ann", password="wrong"),
            HttpCredentials(username="ann", password="pears", origin="http://other.example"),
        ):
            async with visitor.another(SessionProfile(http_credentials=wrong)) as other:
                shown = await other.session.step(VisitPage(site.url))
                assert shown.page.status == 401
        assert (await visitor.session.step(VisitPage(site.url))).page.status == 401

    browser.browse(scenario)


def test_connections_go_through_the_proxy_of_the_session_after_the_guard_has_allowed_them(
    browser: Server,
) -> None:
    asked: list[str] = []

    async def http_proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        header = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(header.split("\r\n")[0])
        if "Proxy-Authorization: Basic " not in header:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            writer.close()
            return
        host, _, port = header.split()[1].rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        await asyncio.gather(_copy(reader, back), _copy(there, writer))

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/"] = "<title>Reached</title>"
        place = visitor.site.url.removeprefix("http://")
        async with await asyncio.start_server(http_proxy, "127.0.0.1", 0) as serving:
            url = f"http://127.0.0.1:{serving.sockets[0].getsockname()[1]}"
            mine = UpstreamProxy(server=url, username="ann", password="pears")
            async with visitor.another(SessionProfile(proxy=mine)) as other:
                assert (await other.visit()).page.title == "Reached"
                assert asked == [f"CONNECT {place} HTTP/1.1"]
                refused = await other.session.step(VisitPage("http://10.0.0.1/"))
                assert refused.error is not None
                assert refused.error.type == "navigation_refused"
                assert len(asked) == 1
            async with visitor.another(SessionProfile(proxy=UpstreamProxy(server=url))) as other:
                failed = await other.session.step(VisitPage(visitor.site.url))
                assert failed.error is not None
                assert "407 Proxy Authentication Required" in failed.error.message
        for server, why in (
            ("http://10.0.0.1:3128", "--allow-proxy"),
            ("ftp://example.com", "proxy.server must be"),
        ):
            with pytest.raises(BadRequestError, match=why):
                await visitor.client.get(profile=SessionProfile(proxy=UpstreamProxy(server=server)))
        with pytest.raises(BadRequestError, match="timezone"):
            await visitor.client.get(profile=SessionProfile(timezone="Mars/Olympus"))

    browser.browse(scenario)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


def test_downloads_are_files_of_their_step_where_the_profile_keeps_them(browser: Server) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        named = {"Content-Disposition": 'attachment; filename="../pears.csv"'}
        return web.Response(body=b"pear,3\n", headers=named)

    async def scenario(visitor: Visitor) -> None:
        page = (
            '<a href="/file">Save</a> <a href="/file" target="_blank">Beside</a>'
            '<iframe src="/frame" height="90"></iframe>'
        )
        frame = '<a href="/file">Inner</a>'
        visitor.site.pages |= {"/": page, "/frame": frame, "/file": answer}
        async with visitor.another(SessionProfile(downloads=True)) as other:
            await other.visit()
            for name in ("Save", "Inner", "Beside"):
                saved = await other.click(name)
                (file,) = saved.downloads
                assert file.name.endswith("pears.csv")
                assert "/" not in file.name
                assert (file.url, file.data) == (f"{visitor.site.url}/file", b"pear,3\n")
                assert [each.kind for each in saved.incidents] == ["download"]
            assert (await other.step()).downloads == ()
            visited = await other.session.step(VisitPage(f"{visitor.site.url}/file"))
            assert visited.error is None
            assert len(visited.downloads) == 1
        await visitor.visit()
        for name in ("Save", "Inner", "Beside"):
            refused = await visitor.click(name)
            assert refused.downloads == ()
            assert [each.detail for each in refused.incidents] == [
                f"refused: {visitor.site.url}/file"
            ]
            assert (refused.page.tabs, refused.settled) == (1, True)

    browser.browse(scenario)


def test_a_session_is_recorded_as_har_and_as_an_animated_picture(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        page = "<title>A</title><body style='background:{}'><script>fetch('/data?q=1')</script>"
        visitor.site.pages |= {"/": page.format("red"), "/b": page.format("blue"), "/data": "ok"}
        visitor.site.pages["/worker.js"] = _worker
        visitor.site.pages["/work"] = "<script>new Worker('/worker.js')</script>"
        async with visitor.another(SessionProfile(record_har=True, record_video=True)) as other:
            for path in ("/", "/b", "/missing", "/work"):
                await other.visit(path)
                video = await other.session.recording("video")
            log = msgspec.json.decode(await other.session.recording("har"))["log"]
            shown = [
                (each["request"]["url"].removeprefix(visitor.site.url), each["response"]["status"])
                for each in log["entries"]
                if "favicon" not in each["request"]["url"]
            ]
            assert shown == [
                *(
                    ("/", 200),
                    ("/data?q=1", 200),
                    ("/b", 200),
                    ("/data?q=1", 200),
                    ("/missing", 404),
                    ("/work", 200),
                    ("/worker.js", 200),
                    ("/data?q=2", 200),
                )
            ]
            assert log["entries"][1]["request"]["queryString"] == [{"name": "q", "value": "1"}]
            assert video.count(b"ANMF") >= 3
            visitor.site.pages["/video.webp"] = lambda _: _picture(video)
            await visitor.show("<img src=/video.webp onload='document.title = `${naturalWidth}`'>")
            assert (await visitor.step()).page.title == "1280"
        with pytest.raises(BadRequestError, match="record_har"):
            await visitor.session.recording("har")

    browser.browse(scenario)


async def _worker(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="fetch('/data?q=2')", content_type="text/javascript")


async def _picture(data: bytes) -> web.StreamResponse:
    return web.Response(body=data, content_type="image/webp")
