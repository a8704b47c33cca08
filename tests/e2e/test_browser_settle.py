"""Settling in a real browser: an answer shows the result of its step, and no page can block it.

Time limits are generous, since the machine may be busy. What matters is what the answer shows, and
that a page which never settles does not cost every step its full limit again.
"""

import asyncio

import pytest
from aiohttp import web

from tests.e2e.browsing import (
    VIEWPORT,
    Handler,
    Scenario,
    Server,
    Visitor,
    html,
    kinds,
    middle,
    never,
    size_of,
)
from webgym.browser.contract.answers import Observe, StepAnswer
from webgym.browser.contract.commands import (
    Back,
    ClickCoords,
    Command,
    Keypress,
    PageDown,
    VisitPage,
)

BUSY_MACHINE = 30.0
"""Seconds that a page which never settles may take at most, its first time."""
STEPS = 4
SOON = 12.5
"""A deadline that bounds waiting to a few seconds."""


def late(answer: str | Handler, seconds: float) -> Handler:
    """A page, or an answer to a script, that takes its time."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return html(answer) if isinstance(answer, str) else await answer(request)

    return handle


def javascript(text: str) -> Handler:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=text, content_type="text/javascript")

    return handle


def seconds_of(answers: list[StepAnswer]) -> float:
    return sum(sum(answer.timings.values()) for answer in answers)


ASKING = {
    "fetch": "fetch('/slow').then(show)",
    "chain": "fetch('/slow').then(() => fetch('/slow')).then(show)",
    "post": "const r = new XMLHttpRequest(); r.onload = show; r.open('POST', '/slow'); r.send('x')",
    "stream": "fetch('/stream').then((r) => r.text()).then(show)",
    "timer": "setTimeout(() => fetch('/slow').then(show), 20)",
    "module": "import('/slow.js').then(show)",
    "image": "document.body.append(Object.assign(new Image(), {src: '/slow', onerror: show}))",
    "debounce": "clearTimeout(window.due); due = setTimeout(() => fetch('/slow').then(show), 250)",
    "pause": "fetch('/slow').then(() => setTimeout(() => fetch('/slow').then(show), 300))",
    "sleep": "(async () => { for (const ms of [200, 300]) await new Promise((done) =>"
    " setTimeout(done, ms)); show() })()",
    "animation": "this.animate([{opacity: 0}, {opacity: 1}], 600).onfinish = show",
    # A transition starts with the last frame, which may have been before the click.
    "transition": "const fading = this.animate([{opacity: 0}, {opacity: 1}], 600);"
    " fading.startTime = document.timeline.currentTime - 50; fading.onfinish = show",
    "frames": "const ends = performance.now() + 600, move = (now) => {"
    " this.style.left = now + 'px'; now < ends ? requestAnimationFrame(move) : show() };"
    " requestAnimationFrame(move)",
    "worker": "new Worker(window.URL.createObjectURL(new Blob(["
    "'setTimeout(() => setTimeout(() => postMessage(1), 300), 300)']))).onmessage = show",
    "socket": "const talk = new WebSocket(`ws://${location.host}/socket`);"
    " talk.onopen = () => talk.send('x'); talk.onmessage = show",
    "worker-request": "new Worker('/outer.js').onmessage = show",
    "worker-busy": "new Worker(window.URL.createObjectURL(new Blob(['const end = Date.now() + 600;"
    " while (Date.now() < end); postMessage(1)']))).onmessage = show",
    "poll": "let asked = 0; const on = setInterval(() => {"
    " if (++asked === 5) { clearInterval(on); show() } }, 100)",
    "canvas": "const ends = performance.now() + 500, draw = (now) =>"
    " now < ends ? requestAnimationFrame(draw) : show(); requestAnimationFrame(draw)",
    "interval": "let left = 40; const on = setInterval(() => {"
    " this.style.height = 20 + left + 'px'; if (!left--) { clearInterval(on); show() } }, 13)",
}


def test_what_a_click_asks_for_is_waited_for(browser: Server) -> None:
    async def stream(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(5):
            await response.write(b"x" * 1000)
            await asyncio.sleep(0.15)
        return response

    async def socket(request: web.BaseRequest) -> web.StreamResponse:
        answering = web.WebSocketResponse()
        await answering.prepare(request)
        async for _ in answering:
            await asyncio.sleep(0.4)
            await answering.send_str("done")
        return answering

    def asking(name: str, script: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            before = await visitor.show(
                "<script>function show() { document.title = 'Done'; document.body.append("
                "Object.assign(document.createElement('button'), {textContent: 'Result'})) }"
                f'</script><button onclick="{script}">Ask</button>',
                f"/pages/{name}",
            )
            answer = await visitor.click("Ask")
            assert answer.page.title == "Done"
            assert answer.settled
            assert answer.screenshot != before.screenshot
            assert "Result" in [element.name for element in answer.elements or ()]

        return scenario

    async def scenario(visitor: Visitor) -> None:
        slow: dict[str, str | Handler] = {
            "/slow": late("done", 0.7),
            "/slow.js": late(javascript("export default 1"), 0.7),
            "/stream": stream,
            "/socket": socket,
            "/outer.js": javascript("new Worker('/inner.js').onmessage = () => postMessage(1)"),
            "/inner.js": javascript("fetch('/slow').then(() => postMessage(1))"),
        }
        visitor.site.pages |= slow
        await visitor.at_once({name: asking(name, script) for name, script in ASKING.items()})

    browser.browse(scenario, "set_of_marks")


COMPLETING = """<title>0</title><input aria-label=City oninput="search()"><ul id=found></ul><script>
let due, times = 0;
function search() {
  clearTimeout(due);
  due = setTimeout(() => fetch('/cities').then((answer) => answer.text()).then((text) => {
    times += 1;
    setTimeout(() => { found.innerHTML = `<li role=option>${text} ${times}</li>` }, 20);
  }), 300);
}
</script>"""


def test_suggestions_for_typed_text_are_waited_for(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/cities"] = late("Lisbon", 0.2)
        await visitor.show(COMPLETING)
        for text in ("L", "i", "s"):  # the same timer in every step is not a loop
            answer = await visitor.fill("City", text)
            assert answer.settled
            assert f"Lisbon {visitor.site.count('/cities')}" in await visitor.elements()
        assert visitor.site.count("/cities") == 3

    browser.browse(scenario)


LASTING = {
    "request": ("fetch('/long').then(show)", True),
    "hanging": ("fetch('/hang').then(show)", False),
    "animation": ("this.animate([{opacity: 0.5}, {opacity: 1}], 60000).onfinish = show", False),
    "stream": ("fetch('/endless').then((answer) => answer.text()).then(show)", False),
    "polls": (
        "const ask = () => fetch('/quick').then(() => setTimeout(ask, 300)); ask()",
        False,
    ),
}


def test_what_is_not_waited_for_is_said(browser: Server) -> None:
    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.2)

    def lasting(name: str, script: str, *, ends: bool) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            await visitor.show(
                "<script>function show() { document.title = 'Done' }</script>"
                f'<button onclick="{script}">Ask</button>',
                f"/pages/{name}",
            )
            answer = await visitor.click("Ask")
            assert answer.settled == (answer.page.title == "Done"), answer
            assert ends or not answer.settled
            assert (await visitor.step(PageDown())).settled

        return scenario

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= {
            "/long": late("x", 4.0),
            "/hang": never,
            "/endless": endless,
            "/quick": "x",
        }
        await visitor.at_once(
            {name: lasting(name, script, ends=ends) for name, (script, ends) in LASTING.items()}
        )

    browser.browse(scenario)


GOING = {
    "slow": "<a href='/slow'>Go</a>",
    "timer": "<button onclick='setTimeout(() => { location = `/slow` }, 50)'>Go</button>",
    "question": "<button onclick='fetch(`/quick`).then(() => { location = `/slow` })'>Go</button>",
    "refresh": "<a href='/refreshes'>Go</a>",
    "hops": "<a href='/hops'>Go</a>",
    "parts": "<a href='/parts'>Go</a>",
    "tab": "<a href='/slow' target='_blank'>Go</a>",
    "tab-timer": "<a href='/timer' target='_blank'>Go</a>",
    "post": "<form action='/slow' method=post><button>Go</button></form>",
    "reload": "<button onclick='history.pushState(0, ``, `/x`); location.reload()'>Go</button>",
}


def test_a_slow_page_is_waited_for(browser: Server) -> None:
    async def parts(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        await response.write(b"<!doctype html><title>First</title><p>first")
        await asyncio.sleep(0.7)
        await response.write(b"<script>document.title = 'End'</script>")
        return response

    def going(name: str, page: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            await visitor.show(page, f"/pages/{name}")
            answer = await visitor.click("Go")
            assert answer.page.title == "End"
            assert answer.settled
            assert not answer.page.loading

        return scenario

    async def scenario(visitor: Visitor) -> None:
        end = "<title>End</title><p>end"
        visitor.site.pages |= {
            "/slow": late(end, 1.0),
            "/x": late(end, 1.0),
            "/quick": "x",
            "/timer": "<script>setTimeout(() => { document.title = 'End' }, 300)</script>",
            "/refreshes": "<meta http-equiv=refresh content='0; url=/slow'><p>wait",
            "/hops": "<script>location.replace('/refreshes')</script>",
            "/parts": parts,
        }
        await visitor.at_once({name: going(name, page) for name, page in GOING.items()})

    browser.browse(scenario)


NEVER_FINISHED = {
    "image": "<img src='/hang' width=100 height=100>",
    "font": "<style>@font-face { font-family: x; src: url(/hang) } p { font-family: x }</style>"
    "<p>Text",
    "frame": "<iframe src='/hang'></iframe><script src='/hang' async></script>",
}


def unfinished_pages() -> Scenario:
    """Pages with a part that never loads: the wait for it is bounded, and happens only once."""

    def unfinished(name: str, part: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            page = f"<title>Busy</title><a href='/next'>Next</a>{part}"
            answer = await visitor.show(page, f"/{name}")
            assert answer.page.title == "Busy"
            assert not answer.settled
            assert answer.page.loading
            assert seconds_of([answer]) < BUSY_MACHINE
            again = [await visitor.step(PageDown()) for _ in range(STEPS)]
            assert seconds_of(again) < STEPS * 1.8
            assert all(each.settled for each in again)  # no later step began what does not end
            answer = await visitor.click("Next")
            assert answer.page.title == "Next"
            assert answer.settled

        return scenario

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= {"/hang": never, "/next": "<title>Next</title>"}
        await visitor.at_once(
            {name: unfinished(name, part) for name, part in NEVER_FINISHED.items()}
        )

    return scenario


HELD_UP = {
    "headers": "",
    "script": "<title>Held</title><script src='/hang'></script><button>Here</button>",
    "style": "<title>Held</title><link rel=stylesheet href='/hang'><button>Here</button>",
    "endless": "<title>Held</title><button>Here</button>",
}


def endless_documents() -> Scenario:
    """Documents that never end: what has arrived of them is shown."""

    def held_up(name: str, page: str) -> Scenario:
        async def send(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "text/html"})
            await response.prepare(request)
            await response.write(f"<!doctype html>{page}".encode() if page else b"")
            while True:
                await asyncio.sleep(0.3)
                await response.write(b"<p>more" if name == "endless" else b"")

        async def scenario(visitor: Visitor) -> None:
            visitor.site.pages |= {f"/{name}": send, "/hang": never}
            answer = await visitor.step(VisitPage(f"{visitor.site.url}/{name}"), within=SOON)
            assert not answer.settled
            assert answer.page.loading
            assert answer.page.title == ("Held" if page else "")
            assert size_of(answer.screenshot) == VIEWPORT
            assert ("Here" in await visitor.elements()) == (name in {"style", "endless"})
            assert (await visitor.visit("/missing")).settled

        return scenario

    async def scenario(visitor: Visitor) -> None:
        await visitor.at_once({name: held_up(name, page) for name, page in HELD_UP.items()})

    return scenario


def silent_servers() -> Scenario:
    """Servers that never answer: the tab stays on its page."""

    async def clicked(visitor: Visitor) -> None:
        await visitor.show("<title>Here</title><a href='/hang'>Go</a><button>Stay</button>")
        go = await visitor.element("Go")
        answer = await visitor.step(ClickCoords(*middle(go)), within=SOON)
        assert answer.page.title == "Here"
        assert not answer.settled
        assert kinds(answer) == ["limit"]
        assert size_of(answer.screenshot) == VIEWPORT
        answer = await visitor.click("Stay")
        assert answer.settled

    async def visited(visitor: Visitor) -> None:
        await visitor.show("<title>There</title>", "/there")
        problem = await visitor.refused(VisitPage(f"{visitor.site.url}/hang"), within=SOON)
        assert problem.type == "navigation_failed"
        assert "in time" in problem.message
        assert (await visitor.step()).page.title == "There"

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/hang"] = never
        await visitor.at_once({"clicked": clicked, "visited": visited})

    return scenario


def test_pages_that_never_settle_are_bounded(browser: Server) -> None:
    browser.browse_all(unfinished_pages(), endless_documents(), silent_servers())


STREAMS = {
    "polls": "(function poll() { fetch('/poll?' + Math.random()).then(poll) })()",
    "events": "new EventSource('/events')",
    "stream": (
        "fetch('/events').then(async (r) => { const reader = r.body.getReader();"
        " for (;;) { await reader.read() } })"
    ),
    "animation": "(function draw() { show(); requestAnimationFrame(draw) })()",
    "long-poll": "fetch('/hang')",
    "timer": "setInterval(() => fetch('/poll'), 30)",
    "socket": "new WebSocket(`ws://${location.host}/socket`).onmessage = show",
    "unread-stream": "fetch('/events')",
    "clock": "setInterval(() => { document.body.firstChild.textContent = Date.now() }, 30)",
    "beacons": "setInterval(() => navigator.sendBeacon('/quick', 'x'), 30)",
    "worker": (
        "new Worker(URL.createObjectURL(new Blob(['const tick = () => setTimeout(tick, 50); tick();"
        " setInterval(() => postMessage(1), 30)']))).onmessage = () => {}"
    ),
    "busy-worker": "new Worker(URL.createObjectURL(new Blob(['for (;;);'])))",
}


@pytest.mark.parametrize("count", [4, pytest.param(len(STREAMS), marks=pytest.mark.campaign)])
def test_pages_that_always_work_do_not_hold_up_every_step(browser: Server, count: int) -> None:
    async def events(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b"data: tick\n\n")
            await asyncio.sleep(0.1)

    async def socket(request: web.BaseRequest) -> web.StreamResponse:
        answering = web.WebSocketResponse()
        await answering.prepare(request)
        while not answering.closed:
            await answering.send_str("tick")
            await asyncio.sleep(0.1)
        return answering

    def working(kind: str, script: str) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            page = (
                "<p>0</p><button onclick='fetch(`/asked`).then(() => { document.title = `Done` })'>"
                "Ask</button><script>function show() { document.body.firstChild.textContent ="
                f" Math.random() }}\n{script}</script>"
            )
            await visitor.show(page, f"/pages/{kind}")
            answers = [await visitor.step(Keypress(("Shift",))) for _ in range(STEPS)]
            assert seconds_of(answers) < STEPS * 2.9
            answer = await visitor.click("Ask")
            assert answer.page.title == "Done"

        return scenario

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= {
            "/hang": never,
            "/poll": late("x", 0.15),
            "/asked": late("x", 0.5),
            "/events": events,
            "/socket": socket,
            "/quick": "x",
        }
        streams = [*STREAMS.items()][:count]
        await visitor.at_once({kind: working(kind, script) for kind, script in streams})

    browser.browse(scenario)


def test_a_quiet_page_costs_no_waiting(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        workers = "new Worker('/worker.js'); new SharedWorker('/worker.js')"
        shown = await visitor.show(
            f"<title>Quiet</title><button>Push</button><div style='height: 3000px'>"
            f"<script>{workers}</script>"
        )
        commands: tuple[Command | None, ...] = (
            None,
            PageDown(),
            ClickCoords(5, 5),
            Keypress(("Tab",)),
            VisitPage(f"{visitor.site.url}/#there"),
            Back(),
        )
        answers = [shown, *[await visitor.step(command) for command in commands]]
        assert all(answer.settled for answer in answers)
        assert seconds_of(answers) < 2 * len(answers)
        assert visitor.site.count("/") == 1

    browser.browse(scenario)


def test_a_step_does_not_wait_for_what_an_earlier_one_began(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/hang"] = never
        await visitor.show("<button onclick='fetch(`/hang`)'>Ask</button>")
        first = await visitor.click("Ask")
        then = await visitor.step(PageDown())
        assert then.timings["settle"] < first.timings["settle"]

    browser.browse(scenario)


def test_pictures_are_taken_while_pages_come_and_go(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        links = "".join(
            f"<a style='display: block; height: 40px' href='/page/{number}'>{number}</a>"
            for number in range(10)
        )

        async def page(request: web.BaseRequest) -> web.StreamResponse:
            await asyncio.sleep(int(request.path[-1]) / 100)
            return html(f"<!doctype html><title>Page {request.path[-1]}</title>{links}")

        visitor.site.pages |= {f"/page/{number}": page for number in range(10)}

        async def hammer(each: Visitor) -> None:
            await each.visit("/page/0")
            for step in range(5):
                number = step * 7 % 10
                command = ClickCoords(10, 8 + 40 * number + 20)
                answer = await each.session.step(command, Observe("coordinates", "jpeg"))
                assert answer.error is None
                assert answer.page.title == f"Page {number}"
                assert size_of(answer.screenshot) == VIEWPORT
                await each.session.execute(ClickCoords(10, 8 + 40 * ((number + 3) % 10) + 20))
                assert size_of(await each.session.screenshot("coordinates", "jpeg")) == VIEWPORT

        async with visitor.another() as second, asyncio.TaskGroup() as group:
            for each in (visitor, second):
                group.create_task(hammer(each))

    browser.browse(scenario)


def test_pictures_are_taken_of_a_page_that_never_stays(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        async def page(request: web.BaseRequest) -> web.StreamResponse:
            number = int(request.query_string or 0)
            hop = f"setTimeout(() => {{ location.replace('/page?{number + 1}') }}, {number % 30})"
            return html(f"<title>Page {number}</title><p>{number}<script>{hop}</script>")

        visitor.site.pages["/page"] = page
        await visitor.visit("/page")
        assert size_of(await visitor.session.screenshot(visitor.mode)) == VIEWPORT
        assert size_of((await visitor.step()).screenshot) == VIEWPORT
        await visitor.show("<title>Calm</title>")

    browser.browse(scenario, "set_of_marks")
