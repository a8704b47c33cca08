"""Pages that mean harm, in a real browser: each is bounded, typed, and survived.

While a page does its worst, a companion goes on working in a session of its own on the same
browser. Afterwards the session that met the page does ordinary work again.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.e2e.browsing import (
    VIEWPORT,
    Scenario,
    Server,
    Visitor,
    browser_server,
    kinds,
    middle,
    size_of,
)
from tests.integration.webgym.browser.processes import until
from webgym.browser.contract.answers import Observe, StepAnswer
from webgym.browser.contract.commands import ClickCoords, Keypress, VisitPage

browser = browser_server("--capacity", "8")
CALM = (
    "<!doctype html><title>Calm</title>"
    "<button onclick='document.title = `Pushed ${++pushed}`'>Push</button><script>pushed = 0</script>"
)
SOON = 14.0
"""A deadline that leaves room for a rescue, and does not take the test long."""


@asynccontextmanager
async def company(visitor: Visitor) -> AsyncIterator[None]:
    """Somebody else works on the same browser for the length of the block, and is not disturbed."""
    visitor.site.pages["/calm"] = CALM
    done = asyncio.Event()

    async def work(companion: Visitor) -> int:
        await companion.visit("/calm")
        push, steps = ClickCoords(*middle(await companion.element("Push"))), 0
        while not done.is_set():
            answer, steps = await companion.step(push), steps + 1
            assert answer.page.title == f"Pushed {steps}"
            await asyncio.sleep(0.2)
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


@pytest.mark.parametrize(
    "script",
    [
        "for (;;) {}",
        "setInterval(() => { for (;;) {} })",
        "(async () => { for (;;) await 0 })()",
    ],
    ids=["loop", "timer", "promises"],
)
def test_a_page_that_never_lets_go_is_unresponsive(browser: Server, script: str) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.show(f"<title>Loop</title><button onclick='{script}'>Loop</button>")
        loop = ClickCoords(*middle(await visitor.element("Loop")))
        answer = await visitor.session.step(loop, within=SOON)
        assert answer.error is not None
        assert answer.error.type == "page_unresponsive"
        assert not answer.settled
        assert size_of(answer.screenshot) == VIEWPORT

    browser.browse(endured(scenario))


def test_a_page_that_never_lets_go_from_the_start_is_unresponsive(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/loop"] = "<title>Loop</title><script>for (;;) {}</script>"
        problem = await visitor.refused(VisitPage(f"{visitor.site.url}/loop"), within=SOON)
        assert problem.type == "page_unresponsive"

    browser.browse(endured(scenario))


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


TRICKS: dict[str, tuple[str, Check]] = {
    "alerts": ("for (;;) alert(`again`)", shows("", "dialog")),
    "alerts by timer": ("setInterval(() => alert(`again`), 1)", shows("", "dialog")),
    "huge alert": ("alert(`x`.repeat(1e7)); document.title = `Told`", shows("Told", "dialog")),
    "windows": ("for (let n = 0; n < 30; n++) window.open(`/calm?${n}`)", keeps_few_tabs),
    "windows by timer": ("setInterval(() => window.open(`/calm`), 20)", keeps_few_tabs),
    "window of its own": ("window.open(`/opens-itself`)", keeps_few_tabs),
    "windows without opener": (
        "for (let n = 0; n < 9; n++) window.open(`/calm`, ``, `noopener`)",
        keeps_few_tabs,
    ),
    "close": ("window.close()", survives),
    "closed window": ("window.open(`/closes`)", shows("Trick", "new_tab", "tab_closed")),
    "download": (
        "const a = document.createElement(`a`); a.href = `/calm`; a.download = `x`; a.click()",
        shows("", "download"),
    ),
    "downloads": (
        "for (let n = 0; n < 30; n++) { const a = document.createElement(`a`);"
        " a.href = URL.createObjectURL(new Blob([n])); a.download = `x`; a.click() }",
        survives,
    ),
    "file chooser": ("document.querySelector(`input`).click()", shows("")),
    "print": ("print(); document.title = `Printed`", shows("Printed", "dialog")),
    "full screen": ("document.documentElement.requestFullscreen()", survives),
    "pointer lock": ("document.body.requestPointerLock()", survives),
    "history": ("for (let n = 0; n < 5000; n++) history.pushState(n, ``, `#${n}`)", survives),
    "long address": ("history.pushState(0, ``, `#` + `x`.repeat(1e6))", survives),
    "long title": ("document.title = `x`.repeat(1e7)", survives),
    "notification": (
        "Notification.requestPermission().then((said) => { document.title = said })",
        shows("denied"),
    ),
    "location": (
        "navigator.geolocation.getCurrentPosition(() => {}, (e) => { document.title = e.code })",
        shows("1"),
    ),
    "clipboard": (
        "navigator.clipboard.readText().catch((e) => { document.title = e.name })",
        shows("NotAllowedError"),
    ),
    "camera": (
        "navigator.mediaDevices.getUserMedia({video: true}).catch(() => { document.title = `No` })",
        shows("No"),
    ),
    "debugger": ("debugger; document.title = `On`", shows("On")),
    "mail": ("location = `mailto:a@b.example`", shows("")),
    "unknown scheme": ("location = `steam://run`", shows("")),
    "unload": ("onbeforeunload = onunload = onpagehide = () => { for (;;) alert() }", survives),
    "slow unload": ("onpagehide = () => { for (;;) {} }", survives),
    "requests": ("for (let n = 0; n < 3000; n++) fetch(`/calm?${n}`)", survives),
    "sockets": (
        "for (let n = 0; n < 600; n++) new WebSocket(`ws://${location.host}/calm?${n}`)",
        survives,
    ),
    "workers": (
        "for (let n = 0; n < 2; n++) new Worker(URL.createObjectURL(new Blob([`for (;;) {}`])))",
        survives,
    ),
    "growth": (
        "setInterval(() => { for (let n = 0; n < 500; n++)"
        " document.body.append(document.createElement(`button`)) }, 5)",
        survives,
    ),
    "prototypes": (
        "JSON.stringify = Array.prototype.map = Map.prototype.get = null;"
        " Object.defineProperty(window, `innerWidth`, {get() { throw 1 }});"
        " document.title = `Broken`",
        shows("Broken"),
    ),
    "no document": ("document.documentElement.remove()", survives),
    "replaced document": ("document.open(); document.write(`<title>New</title>`)", survives),
}


def test_tricks_of_pages_are_survived(browser: Server) -> None:
    def played(name: str, script: str, check: Check) -> Scenario:
        async def scenario(visitor: Visitor) -> None:
            try:
                page = f'<input type=file hidden><button onclick="{script}">Go</button>'
                await visitor.show(page, f"/trick/{name.replace(' ', '-')}")
                answer = await visitor.click("Go")
                await check(visitor, answer)
                await visitor.step(None, Observe("set_of_marks"))
                await work_on(visitor)
            except Exception as error:
                error.add_note(f"the trick: {name}")
                raise

        return scenario

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages |= {
            "/opens-itself": "<title>Trick</title><script>open('/opens-itself')</script>",
            "/closes": "<title>Trick</title><script>close()</script>",
        }
        async with company(visitor):
            await visitor.at_once(
                played(name, script, check) for name, (script, check) in TRICKS.items()
            )

    browser.browse(scenario)
