"""A real browser behind the network guard: pages try to get where they may not.

A site on one port of loopback is allowed. On another port listens a server that no session may
reach: it counts connections, and must have seen none in the end, while the guard has recorded what
it refused.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress

import pytest
import uvloop
from playwright.async_api import Browser, Error, async_playwright

from tests.cases import for_each
from tests.integration.webgym.browser.guard.stage import HTML, PATIENCE, PUBLIC, Stage
from webgym.browser.guard.dialler import GuardLimits
from webgym.browser.guard.guard import GUARDED_FLAGS

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
Run = Callable[[Callable[[Stage], Coroutine[None, None, None]]], None]
OWN_FLAGS = ["--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner


@pytest.fixture(scope="module")
def browser(runner: asyncio.Runner) -> Iterator[Browser]:
    """One browser for all, with the flags of the product that concern the network."""
    playwright = runner.run(async_playwright().start())
    try:
        flags = [*GUARDED_FLAGS, *OWN_FLAGS]
        browser = runner.run(playwright.chromium.launch(executable_path=CHROMIUM, args=flags))
        yield browser
        runner.run(browser.close())
    finally:
        runner.run(playwright.stop())


@pytest.fixture
def run(runner: asyncio.Runner, browser: Browser) -> Run:
    def run_scenario(
        scenario: Callable[[Stage], Coroutine[None, None, None]],
        limits: GuardLimits | None = None,
    ) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(3 * PATIENCE),
                Stage(browser, limits or GuardLimits()).opened() as stage,
            ):
                await scenario(stage)
                assert stage.forbidden.connections == 0
                assert stage.forbidden.datagrams == 0

        runner.run(main())

    return run_scenario


SPELLINGS = (
    "2130706433",
    "0x7f.1",
    "shop.localhost.",
    "%6c%6fcalhost",
    "\u24dbocalhost",
    "\uff11\uff12\uff17.0.0.1",
    "[::ffff:127.0.0.1]",
)
"""How the browser spells an address to the guard. The unit tests have more spellings."""


def test_loopback_is_loopback_however_it_is_spelled(run: Run) -> None:
    async def scenario(stage: Stage) -> None:
        for number, host in enumerate(SPELLINGS):
            await stage.visit(f"http://{host}:{stage.site.port}/{number}")
            assert f"/{number}" in stage.site.asked, host
            assert stage.channel.rejections.take() == []
            await stage.visit(f"http://{host}:{stage.forbidden.port}/")
            await stage.refused()
            assert len(stage.channel.rejections.take()) == 1

    run(scenario)


NOT_PUBLIC = (
    "[::1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "0",
    "0.0.0.0",
    "10.1.2.3",
    "169.254.169.254",
    "[fe80::1]",
    "[fd00:ec2::254]",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "inner.example",
    "b\u00fccher.example",
    "localhost.localdomain",
)


def test_other_addresses_that_are_not_public_are_refused(run: Run) -> None:
    async def scenario(stage: Stage) -> None:
        stage.names.answers = {
            "inner.example": ["192.168.1.1"],
            "xn--bcher-kva.example": ["127.0.0.1"],
            "localhost.localdomain": ["127.0.0.1"],
        }
        for host in NOT_PUBLIC:
            await stage.visit(f"http://{host}:{stage.forbidden.port}/")
            await stage.refused()
            assert len(stage.channel.rejections.take()) == 1, host
        assert stage.dialled == []

    run(scenario)


@for_each("hops", [1, 3])
def test_a_redirect_does_not_lead_to_a_refused_server(run: Run, hops: int) -> None:
    async def scenario(stage: Stage) -> None:
        url = f"{stage.forbidden_url}/secret"
        for _ in range(hops):
            url = f"{stage.allowed_url}/to?{url}"
        await stage.visit(url)
        assert len(stage.site.asked) == hops
        await stage.refused()

    run(scenario)


ATTEMPTS = {
    "image": "<img src='URL/x.png'>",
    "script": "<script src='URL/x.js'></script>",
    "style sheet": "<link rel=stylesheet href='URL/x.css'>",
    "font": "<style>@font-face{font-family:x;src:url(URL/x.woff)} p{font-family:x}</style><p>x",
    "background": "<p style='background:url(URL/x.png)'>x",
    "frame": "<iframe src='URL/'></iframe>",
    "frame that is redirected": "<iframe src='/to?URL/'></iframe>",
    "object": "<object data='URL/x.svg' type='image/svg+xml'></object>",
    "video": "<video src='URL/x.mp4' preload=auto></video>",
    "preload": "<link rel=preload as=fetch href='URL/x'>",
    "prefetch": "<link rel=prefetch href='URL/x'>",
    "refresh": "<meta http-equiv=refresh content='0;url=URL/'>",
    "location": "<script>location = 'URL/'</script>",
    "form": "<form action='URL/' method=post></form><script>document.forms[0].submit()</script>",
    "window": "<script>open('URL/')</script>",
    "fetch": "<script>fetch('URL/', {mode: 'no-cors'})</script>",
    "fetch that is redirected": "<script>fetch('/to?URL/', {mode: 'no-cors'})</script>",
    "request": "<script>r = new XMLHttpRequest(); r.open('GET', 'URL/'); r.send()</script>",
    "beacon": "<script>navigator.sendBeacon('URL/', 'x')</script>",
    "event source": "<script>new EventSource('URL/')</script>",
    "socket": "<script>new WebSocket('URL/'.replace('http', 'ws'))</script>",
    "secure socket": "<script>new WebSocket('URL/'.replace('http', 'wss'))</script>",
    "worker": "<script>new Worker(URL.createObjectURL(new Blob([`fetch('TARGET/')`])))</script>",
    "import": "<script type=module>import('URL/x.js')</script>",
}


@for_each("way", ATTEMPTS)
def test_a_page_cannot_reach_a_refused_server(run: Run, way: str) -> None:
    async def scenario(stage: Stage) -> None:
        body = ATTEMPTS[way]
        placeholder = "TARGET" if "TARGET" in body else "URL"
        await stage.show(body.replace(placeholder, stage.forbidden_url))
        await stage.refused()

    run(scenario)


def test_a_service_worker_cannot_reach_a_refused_server(run: Run) -> None:
    async def scenario(stage: Stage) -> None:
        worker = (
            "self.onfetch = event => {"
            f" if (event.request.url.endsWith('/through')) event.respondWith("
            f"   fetch('{stage.forbidden_url}/', {{mode: 'no-cors'}})); }};"
            "self.onactivate = event => event.waitUntil(clients.claim());"
        )
        stage.site.pages["/worker.js"] = ("text/javascript", worker.encode())
        await stage.visit(f"{stage.allowed_url}/")
        await stage.page.evaluate("navigator.serviceWorker.register('/worker.js').then(() => 1)")
        await stage.page.wait_for_function("() => navigator.serviceWorker.controller !== null")
        await stage.page.evaluate("fetch('/through').then(() => 'got', () => 'failed')")
        assert "/through" not in stage.site.asked
        await stage.refused()

    run(scenario)


def test_web_sockets_to_an_allowed_server_are_connected(run: Run) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.visit(f"{stage.allowed_url}/")
        opening = (
            "new Promise(done => { new WebSocket(`ws://${location.host}/ws`).onerror = done })"
        )
        await stage.page.evaluate(f"{opening}.then(() => true)")
        assert "/ws" in stage.site.asked

    run(scenario)


def test_a_name_that_changes_its_mind_does_not_lead_to_a_refused_server(run: Run) -> None:
    async def scenario(stage: Stage) -> None:
        stage.names.answers = {"rebinding.example": [str(PUBLIC), "127.0.0.1"]}
        port = stage.forbidden.port
        await stage.page.goto(f"http://rebinding.example:{port}/")
        assert await stage.page.title() == "site"
        asked = await stage.page.evaluate("fetch('/secret').then(() => 'got', () => 'failed')")
        assert asked == "failed"
        await stage.refused()
        assert stage.dialled == [f"{PUBLIC}:{port}"]

    run(scenario)


def test_datagrams_do_not_go_around_the_guard(run: Run) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.visit(f"http://localhost:{stage.site.port}/")
        await stage.page.evaluate(
            """async port => {
                const server = {urls: [`stun:127.0.0.1:${port}`, `stun:localhost:${port}`]};
                const ours = new RTCPeerConnection({iceServers: [server]});
                const theirs = new RTCPeerConnection();
                ours.createDataChannel('x');
                const gathered = new Promise(done => {
                    ours.onicegatheringstatechange = () =>
                        ours.iceGatheringState === 'complete' && done();
                });
                await ours.setLocalDescription();
                await theirs.setRemoteDescription(ours.localDescription);
                await theirs.setLocalDescription();
                await ours.setRemoteDescription(theirs.localDescription);
                await ours.addIceCandidate({
                    candidate: `candidate:1 1 udp 2122260223 127.0.0.1 ${port} typ host`,
                    sdpMLineIndex: 0,
                });
                await gathered;
                await new Promise(done => setTimeout(done, 500));
                const transport = new WebTransport(`https://127.0.0.1:${port}/`);
                await transport.ready.catch(() => null);
            }""",
            stage.forbidden.port,
        )

    run(scenario)


@for_each("target", ["file:///etc/passwd", "chrome://version", "data:text/html,x"])
def test_a_page_cannot_open_urls_that_are_not_websites(run: Run, target: str) -> None:
    attempts = [f"location = '{target}'", f"open('{target}')", f"location = '/to?{target}'"]
    if not target.startswith("data:"):  # a page may hold what it wrote itself, only not become it
        attempts += [
            f"document.body.innerHTML = `<iframe src='{target}'></iframe>`",
            f"fetch('{target}').then(answer => answer.text()).then(text => document.title = text)",
            f"fetch('/to?{target}').then(answer => answer.text())",
        ]

    async def scenario(stage: Stage) -> None:
        for attempt in attempts:
            page = await stage.page.context.new_page()
            await page.goto(f"{stage.allowed_url}/")
            with suppress(Error):
                await page.evaluate(f"async () => {{ await ({attempt}) }}")
            await page.wait_for_timeout(100)
            assert "root:" not in await page.title()
            for opened in stage.page.context.pages:
                for frame in opened.frames:
                    assert not frame.url.startswith(("file:", "chrome:", "data:")), attempt

    run(scenario)


def test_a_page_that_is_too_large_is_cut(runner: asyncio.Runner, browser: Browser) -> None:
    async def main() -> None:
        limits = GuardLimits(step_bytes=1 << 20)
        async with asyncio.timeout(3 * PATIENCE), Stage(browser, limits).opened() as stage:
            stage.site.pages["/large"] = (HTML, b"<p>large</p>" * (1 << 20))
            # A page whose transfer breaks off is never loaded.
            await stage.page.goto(f"{stage.allowed_url}/large", wait_until="commit")
            await stage.refused(stage.site.port)
            assert "page too large" in stage.channel.rejections.take()[0].reason
            assert stage.channel.traffic.received < 2 << 20
            await stage.visit(f"{stage.allowed_url}/small")
            assert "/small" not in stage.site.asked
            stage.channel.traffic.begin_step()
            page = await stage.page.context.new_page()
            await page.goto(f"{stage.allowed_url}/small")
            assert await page.title() == "site"

    runner.run(main())


def test_what_the_browser_sends_outside_of_sessions_goes_nowhere(
    runner: asyncio.Runner, browser: Browser
) -> None:
    async def main() -> None:
        async with Stage(browser, GuardLimits()).opened() as stage:
            context = await browser.new_context()
            page = await context.new_page()
            for url in (stage.allowed_url, stage.forbidden_url):
                with pytest.raises(Error, match="ERR_PROXY_CONNECTION_FAILED"):
                    await page.goto(url)
            assert stage.site.asked == []
            assert stage.forbidden.connections == 0
            await context.close()

    runner.run(main())
