"""Hostile pages in a real browser: each is bounded, gives a typed error, and is survived.

Meanwhile a companion works undisturbed in another session on the same browser. Afterwards the
session of the hostile page does ordinary work again.
"""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from aiohttp import web

from tests.e2e.browsing import (
    VIEWPORT,
    Scenario,
    Server,
    Visitor,
    html,
    kinds,
    middle,
    size_of,
)
from tests.integration.webgym.browser.processes import until
from webgym.browser.contract.answers import Observe, StepAnswer
from webgym.browser.contract.commands import ClickCoords, Keypress, PageDown, Sleep, VisitPage

CALM = (
    "<!doctype html><title>Calm</title><script>pushed = 0</script>"
    "<button onclick='document.title = `Pushed ${++pushed}`'>Push</button>"
)
SOON = 12.5
"""A deadline that leaves time for a recovery, and does not take the test long."""


@asynccontextmanager
async def company(visitor: Visitor) -> AsyncIterator[None]:
    """Another session works undisturbed on the same browser for the length of the block."""
    visitor.site.pages["/calm"] = CALM
    done = asyncio.Event()

    async def work(companion: Visitor) -> int:
        await companion.visit("/calm")
        push, steps = ClickCoords(*middle(await companion.element("Push"))), 0
        while not done.is_set():
            answer, steps = await companion.step(push), steps + 1
            assert answer.page.title == f"Pushed {steps}"
            await asyncio.sleep(0.5)
        return steps

    async with visitor.another() as companion, asyncio.TaskGroup() as group:
        working = group.create_task(work(companion))
        try:
            yield
        finally:
            done.set()
    assert working.result() > 0


async def work_on(visitor: Visitor) -> None:
    """Ordinary work in a session that has seen something."""
    visitor.site.pages["/calm"] = CALM
    answer = await visitor.visit("/calm")
    assert (answer.page.title, size_of(answer.screenshot)) == ("Calm", VIEWPORT)
    assert (await visitor.click("Push")).page.title == "Pushed 1"


def endured(scenario: Scenario) -> Scenario:
    """The scenario with company, and ordinary work afterwards."""

    async def whole(visitor: Visitor) -> None:
        async with company(visitor):
            await scenario(visitor)
            await work_on(visitor)

    return whole


def test_a_page_whose_process_dies_is_a_typed_crash(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.visit("/missing")
        others = browser.pages()
        async with visitor.another() as doomed:
            await doomed.show("<title>Doomed</title><button>Push</button>", "/doomed")
            [page] = browser.pages() - others
            os.kill(page, signal.SIGKILL)
            await until(lambda: page not in browser.pages(), "the page's process is gone")
            answer = await doomed.session.step(Keypress(("Enter",)))
            assert answer.error is not None
            assert answer.error.type == "page_crashed"
            assert "/doomed" in answer.error.message
            assert "crash" in kinds(answer)
            assert answer.page.url == "about:blank"
            assert size_of(answer.screenshot) == VIEWPORT
            await work_on(doomed)

    browser.browse(endured(scenario))


def test_a_page_that_eats_all_memory_is_a_typed_crash(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(
            "<button onclick='const all = []; for (;;) all.push(new Array(1e6).fill(1.5))'>Eat"
        )
        eat = ClickCoords(*middle(await visitor.element("Eat")))
        answer = await visitor.session.step(eat)
        assert answer.error is not None
        assert answer.error.type == "page_crashed"
        assert "crash" in kinds(answer)

    browser.browse(endured(scenario))


LOOPS = {
    "timer": "setInterval(() => { for (;;) {} })",
    "loop": "for (;;) {}",
    "promises": "(async () => { for (;;) await 0 })()",
}


@pytest.mark.parametrize("count", [1, pytest.param(len(LOOPS), marks=pytest.mark.campaign)])
def test_a_page_with_an_endless_loop_is_unresponsive(browser: Server, count: int) -> None:
    def looping(name: str, script: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            page = f"<title>Loop</title><button onclick='{script}'>Loop</button>"
            await visitor.show(page, f"/{name}")
            loop = ClickCoords(*middle(await visitor.element("Loop")))
            problem = await visitor.refused(loop, within=SOON)
            assert problem.type == "page_unresponsive"
            await work_on(visitor)

        return scenario

    async def from_the_start(visitor: Visitor) -> None:
        visitor.site.pages["/start"] = "<title>Loop</title><script>for (;;) {}</script>"
        problem = await visitor.refused(VisitPage(f"{visitor.site.url}/start"), within=SOON)
        assert problem.type == "page_unresponsive"
        await work_on(visitor)

    async def scenario(visitor: Visitor) -> None:
        loops = {name: looping(name, script) for name, script in [*LOOPS.items()][:count]}
        async with company(visitor):
            await visitor.at_once({**loops, "from the start": from_the_start})

    browser.browse(scenario)


Check = Callable[[Visitor, StepAnswer], Coroutine[Any, Any, None]]


def shows(title: str, *incidents: str) -> Check:
    async def check(_: Visitor, answer: StepAnswer) -> None:
        assert answer.page.title == title
        assert [kind for kind in dict.fromkeys(kinds(answer)) if kind != "refused"] == [*incidents]

    return check


async def keeps_few_tabs(visitor: Visitor, answer: StepAnswer) -> None:
    assert answer.page.tabs <= 5
    assert {"new_tab", "limit"} <= set(kinds(answer))


async def closes(_: Visitor, answer: StepAnswer) -> None:
    assert "tab_closed" in kinds(answer)
    assert (answer.page.url, answer.page.tabs) == ("about:blank", 1)


async def survives(_: Visitor, answer: StepAnswer) -> None:
    assert size_of(answer.screenshot) == VIEWPORT
    assert answer.page.title != "Granted"


PAGE = (
    "<input type=file hidden><script>const say = (said) => { document.title ="
    " /granted|true/.test(said) ? `Granted` : `Said` }</script>"
)
OPENING = "for (let n = 0; n < COUNT; n++) window.open(`/calm?${n}`, ``, `FEATURES`)"
SAVING = "const a = document.createElement(`a`); a.href = `HREF`; a.download = `x`; a.click()"
ADDING = "for (let n = 0; n < 500; n++) document.body.append(document.createElement(`button`))"
BREAKING = """
    JSON.stringify = Array.prototype.map = Map.prototype.get = null;
    Object.defineProperty(window, `innerWidth`, {get() { throw 1 }});
    document.title = `Broken`"""
ASKING = {
    "notification": "Notification.requestPermission().then(say)",
    "location": "navigator.geolocation.getCurrentPosition(say, say)",
    "clipboard": "navigator.clipboard.readText().then(say, say)",
    "camera": "navigator.mediaDevices.getUserMedia({video: true}).then(say, say)",
    "sensors": "navigator.permissions.query({name: `accelerometer`}).then(say, say)",
    "devices": "navigator.bluetooth?.requestDevice({acceptAllDevices: true}).then(say, say)",
    "storage": "navigator.storage.persist().then(say)",
    "payment": "new PaymentRequest([{supportedMethods: `x:y`}], {total: {}}).show().then(say, say)",
    "share": "navigator.share?.({text: `x`}).then(say, say)",
    "wake lock": "navigator.wakeLock.request().then(say, say)",
    "screen": "navigator.mediaDevices.getDisplayMedia().then(say, say)",
    "credentials": "navigator.credentials.get({password: true}).then(say, say)",
    "file": "showOpenFilePicker().then(say, say)",
    "protocol": "navigator.registerProtocolHandler(`web+x`, `/calm?%s`)",
    "idle": "IdleDetector.requestPermission().then(say, say)",
}
TRICKS: dict[str, tuple[str, Check]] = {
    **{name: (script, survives) for name, script in ASKING.items()},
    "alerts": ("for (;;) alert(`again`)", shows("", "dialog")),
    "alerts by timer": ("setInterval(() => alert(`again`), 1)", shows("", "dialog")),
    "huge alert": ("alert(`x`.repeat(1e7)); document.title = `Told`", shows("Told", "dialog")),
    "windows": (OPENING.replace("COUNT", "30").replace("FEATURES", ""), keeps_few_tabs),
    "windows by timer": ("setInterval(() => window.open(`/calm`), 20)", keeps_few_tabs),
    "window of its own": ("window.open(`/opens-itself`)", keeps_few_tabs),
    "windows alone": (
        OPENING.replace("COUNT", "9").replace("FEATURES", "noopener"),
        keeps_few_tabs,
    ),
    "close": ("window.close()", survives),
    "closed window": ("window.open(`/closes`)", shows("", "new_tab", "tab_closed")),
    "download": (SAVING.replace("HREF", "/calm"), shows("", "download")),
    "downloads": (f"for (let n = 0; n < 30; n++) {{ {SAVING} }}", survives),
    "file chooser": ("document.querySelector(`input`).click()", shows("")),
    "print": ("print(); document.title = `Printed`", shows("Printed", "dialog")),
    "full screen": ("document.documentElement.requestFullscreen()", survives),
    "pointer lock": ("document.body.requestPointerLock()", survives),
    "history": ("for (let n = 0; n < 5000; n++) history.pushState(n, ``, `#${n}`)", survives),
    "long address": ("history.pushState(0, ``, `#` + `x`.repeat(1e6))", survives),
    "long title": ("document.title = `x`.repeat(1e7)", survives),
    "debugger": ("debugger; document.title = `On`", shows("On")),
    "mail": ("location = `mailto:a@b.example`", shows("")),
    "unknown scheme": ("location = `steam://run`", shows("")),
    "unload": ("onbeforeunload = onunload = onpagehide = () => { for (;;) alert() }", survives),
    "slow unload": ("onpagehide = () => { for (;;) {} }", survives),
    "requests": ("for (let n = 0; n < 3000; n++) fetch(`/calm?${n}`)", survives),
    "sockets": ("for (let n = 0; n < 600; n++) new WebSocket(`ws://${location.host}/`)", survives),
    "worker": ("new Worker(URL.createObjectURL(new Blob([`for (;;) {}`])))", survives),
    "growth": (f"setInterval(() => {{ {ADDING} }}, 5)", survives),
    "prototypes": (BREAKING, shows("Broken")),
    "no document": ("document.documentElement.remove()", survives),
    "new document": ("document.open(); document.write(`<title>New</title>`)", shows("New")),
}


SHARP = (
    *("file", "alerts", "windows by timer", "closed window", "download", "file chooser"),
    *("pointer lock", "unload", "slow unload", "prototypes", "no document"),
)
"""The tricks of the default run: one of each kind of harm."""
TIRING = ("windows by timer",)
"""Tricks that may leave a page no time to answer on a busy machine; then it is stopped."""


@pytest.mark.parametrize(
    "names",
    [SHARP, pytest.param(tuple(set(TRICKS) - {*SHARP}), marks=pytest.mark.campaign)],
    ids=["sharp", "all others"],
)
def test_tricks_of_pages_are_survived(browser: Server, names: tuple[str, ...]) -> None:
    def played(name: str, script: str, check: Check) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            page = f'{PAGE}<button onclick="{script}">Go</button>'
            await visitor.show(page, f"/trick/{name.replace(' ', '-')}")
            element = await visitor.element("Go")
            answer = await visitor.session.step(
                ClickCoords(*middle(element)), Observe(visitor.mode)
            )
            if answer.error is None or name not in TIRING:
                assert answer.error is None, answer.error
                await check(visitor, answer)
            else:
                assert answer.error.type == "page_unresponsive"
            await visitor.step(None, Observe("set_of_marks"))
            await work_on(visitor)

        return scenario

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= {
            "/opens-itself": "<title>Trick</title><script>open('/opens-itself')</script>",
            "/closes": "<title>Trick</title><script>close()</script>",
        }
        async with company(visitor):
            await visitor.at_once({name: played(name, *TRICKS[name]) for name in names})

    browser.browse(scenario)


def test_no_process_of_a_page_outlives_its_session(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        before = len(browser.pages())
        async with visitor.another() as stuck:
            await stuck.show(
                "<title>Here</title><script>onpagehide = () => { for (;;) {} }</script>"
            )
            assert len(browser.pages()) > before
        await until(lambda: len(browser.pages()) <= before, "the stuck page is gone")

    browser.browse(scenario)


def test_redirects_without_end_are_failed_navigations(browser: Server) -> None:
    async def around(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/around"})

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/around"] = around
        problem = await visitor.refused(VisitPage(f"{visitor.site.url}/around"))
        assert problem.type == "navigation_failed"
        assert "TOO_MANY_REDIRECTS" in problem.message
        await visitor.show("<a href='/around'>Go</a>")
        answer = await visitor.click("Go")
        assert answer.page.url == f"{visitor.site.url}/around"

    browser.browse(endured(scenario))


GOING_ON = {
    "reload": "<script>location.reload()</script>",
    "refresh": "<meta http-equiv=refresh content=0><p>again",
    "script": "<script>location = location.pathname + '?' + Math.random()</script>",
    "form": "<form></form><script>document.forms[0].submit()</script>",
}


@pytest.mark.campaign  # by default, test_browser_settle.py has a page that never stays
def test_a_page_that_navigates_without_end_is_bounded(browser: Server) -> None:
    def going_on(name: str, page: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            answer = await visitor.show(page, f"/on/{name}")
            assert size_of(answer.screenshot) == VIEWPORT
            assert answer.page.url.startswith(f"{visitor.site.url}/on/{name}")
            await work_on(visitor)

        return scenario

    async def scenario(visitor: Visitor) -> None:
        async with company(visitor):
            scenes = {name: going_on(name, page) for name, page in GOING_ON.items()}
            await visitor.at_once(scenes)

    browser.browse(scenario)


def test_a_page_of_a_hundred_megabytes_is_cut(browser: Server) -> None:
    arrived = False

    async def huge(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal arrived
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        await response.write(b"<title>Huge</title><!--")
        with suppress(ConnectionError):
            for _ in range(100):
                await response.write(b"x" * 2**20)
            arrived = True
        return response

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/huge"] = huge
        answer = await visitor.session.step(VisitPage(f"{visitor.site.url}/huge"))
        refused = [each.detail for each in answer.incidents if each.kind == "refused"]
        assert any("too large" in detail for detail in refused)
        assert not arrived
        assert size_of(answer.screenshot) == VIEWPORT

    browser.browse(endured(scenario))


def test_service_workers_never_run(browser: Server) -> None:
    async def worker(_: web.BaseRequest) -> web.StreamResponse:
        script = "fetch('/worked'); onfetch = (e) => e.respondWith(new Response('taken over'))"
        return web.Response(text=script, content_type="text/javascript")

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/worker.js"] = worker
        register = "navigator.serviceWorker.register('/worker.js')"
        await visitor.show(f"<title>Site</title><script>{register}</script>")
        answer = await visitor.visit("/")
        assert (answer.page.title, answer.settled) == ("Site", True)
        assert (await visitor.step()).page.title == "Site"
        assert visitor.site.count("/") == 2
        assert visitor.site.count("/worked") == 0

    browser.browse(endured(scenario))


def test_frames_in_frames_are_seen_as_deep_as_they_go(browser: Server) -> None:
    async def nested(request: web.BaseRequest) -> web.StreamResponse:
        depth = int(request.query_string)
        inner = f"<iframe src='/nested?{depth - 1}'></iframe>" if depth else "<p>bottom"
        style = "<style>* { margin: 0; border: 0; width: 100%; height: 700px }</style>"
        return html(f"<!doctype html><title>{depth}</title>{style}{inner}")

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/nested"] = nested
        answer = await visitor.step(
            VisitPage(f"{visitor.site.url}/nested?50"), Observe("set_of_marks", tree=True)
        )
        assert answer.page.title == "50"
        assert size_of(answer.screenshot) == VIEWPORT
        await visitor.step(PageDown())

    browser.browse(endured(scenario))


def test_no_datagram_leaves(browser: Server) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outside:
        outside.bind(("127.0.0.1", 0))
        outside.setblocking(False)
        port = outside.getsockname()[1]

        async def scenario(visitor: Visitor) -> None:
            answer = await visitor.show(
                "<title>Trying</title><script>(async () => {"
                f"const iceServers = [{{urls: 'stun:127.0.0.1:{port}'}}];"
                "const peer = new RTCPeerConnection({iceServers});"
                "peer.createDataChannel('x');"
                "peer.onicegatheringstatechange = () => {"
                " if (peer.iceGatheringState === 'complete') document.title = 'Gathered' };"
                "await peer.setLocalDescription() })()</script>"
            )
            while answer.page.title != "Gathered":
                answer = await visitor.step(Sleep(0.2))
            with pytest.raises(BlockingIOError):
                outside.recv(100)

        browser.browse(scenario)


REMEMBERING = """<title>...</title><img src='/image'><script>
const asked = indexedDB.open('memory');
const counter = new SharedWorker('/counter.js');
const channel = new BroadcastChannel('memory');
const heard = [];
channel.onmessage = ({ data }) => heard.push(data);
async function remember(key) {
  const before = [document.cookie, localStorage.key(0), (await caches.keys())[0], window.name];
  const known = await indexedDB.databases();
  document.cookie = `who=${key}; max-age=1000`;
  localStorage.setItem(key, 1);
  window.name = key;
  await caches.open(key);
  await new Promise((done) => { indexedDB.open(key).onsuccess = done });
  counter.port.start();
  const count = await new Promise((done) => { counter.port.onmessage = ({ data }) => done(data) });
  channel.postMessage(key);
  document.title = JSON.stringify([...before.map((each) => each || null), known.length, count]);
}
</script><button onclick="remember('KEY')">Remember</button>
<button onclick="document.title = JSON.stringify(heard)">Heard</button>"""


def test_sessions_share_nothing(browser: Server) -> None:
    async def counter(_: web.BaseRequest) -> web.StreamResponse:
        script = "let count = 0; onconnect = ({ ports }) => ports[0].postMessage(++count)"
        return web.Response(text=script, content_type="text/javascript")

    async def image(_: web.BaseRequest) -> web.StreamResponse:
        picture = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
        headers = {"Cache-Control": "public, max-age=9999, immutable"}
        return web.Response(text=picture, content_type="image/svg+xml", headers=headers)

    async def page(request: web.BaseRequest) -> web.StreamResponse:
        response = html(REMEMBERING.replace("KEY", request.query_string))
        response.set_cookie("kept", request.query_string, httponly=True)
        return response

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= {"/counter.js": counter, "/image": image, "/memory": page}
        async with visitor.another() as other:
            for each, name in ((visitor, "first"), (other, "second")):
                await each.visit(f"/memory?{name}")
                answer = await each.click("Remember")
                assert msgspec.json.decode(answer.page.title) == [None, None, None, None, 1, 1]
            assert visitor.site.count("/image") == 2
            for each in (visitor, other):
                assert (await each.click("Heard")).page.title == "[]"
            await visitor.visit("/memory?third")
            answer = await visitor.click("Remember")
            known = msgspec.json.decode(answer.page.title)
            assert known[:3] == ["who=first", "first", "first"]
            assert visitor.site.count("/image") == 2
        async with visitor.another() as later:
            await later.visit("/memory?later")
            answer = await later.click("Remember")
            assert msgspec.json.decode(answer.page.title) == [None, None, None, None, 1, 1]

    browser.browse(scenario)
