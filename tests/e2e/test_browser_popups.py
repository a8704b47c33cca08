"""Pages that open others and then break, in a real browser: the right page is closed."""

import os
import signal

import pytest

from tests.e2e.browsing import VIEWPORT, Server, Visitor, kinds, middle, size_of
from tests.integration.webgym.browser.processes import until
from webgym.browser.contract.answers import Incident
from webgym.browser.contract.commands import Back, ClickCoords, Keypress
from webgym.browser.contract.errors import PageCrashedError

POPUP = "<!doctype html><title>Popup</title><button onclick='document.title = `Pushed`'>Push"
SOON = 12.5
"""A deadline that leaves time for a recovery, and does not take the test long."""


def opener(script: str) -> str:
    return f"<title>Opener</title><button onclick='{script}'>Open</button>"


async def open_popup(visitor: Visitor, features: str) -> None:
    """A popup that is followed. Without an opener it has a process of its own."""
    visitor.site.pages["/popup"] = POPUP
    await visitor.show(opener(f"window.open(`/popup`, ``, `{features}`)"))
    answer = await visitor.click("Open")
    assert (answer.page.title, answer.page.tabs) == ("Popup", 2)


async def kill(server: Server, pages: set[int]) -> None:
    for page in pages:
        os.kill(page, signal.SIGKILL)
    await until(lambda: not pages & server.pages(), "the processes of the pages are gone")


async def work_on(visitor: Visitor) -> None:
    visitor.site.pages["/popup"] = POPUP
    assert (await visitor.visit("/popup")).page.title == "Popup"
    assert (await visitor.click("Push")).page.title == "Pushed"


@pytest.mark.parametrize("features", ["", pytest.param("noopener", marks=pytest.mark.campaign)])
def test_a_popup_that_crashes_is_a_typed_crash_and_the_session_continues(
    browser: Server, features: str
) -> None:
    async def scenario(visitor: Visitor) -> None:
        await visitor.visit("/missing")
        before = browser.pages()
        async with visitor.another() as doomed:
            await doomed.visit("/missing")
            alone = browser.pages() if features else before
            await open_popup(doomed, features)
            await kill(browser, browser.pages() - alone)
            answer = await doomed.session.step(Keypress(("Enter",)))
            assert answer.error is not None
            assert answer.error.type == "page_crashed"
            assert "/popup" in answer.error.message
            assert "crash" in kinds(answer)
            assert answer.page.url == "about:blank"
            assert size_of(answer.screenshot) == VIEWPORT
            if features:
                assert (await doomed.step(Back())).page.title == "Opener"
            await work_on(doomed)

    browser.browse(scenario)


def test_a_crash_of_a_popup_and_its_opener_is_reported_once(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        before = browser.pages()
        async with visitor.another() as doomed:
            await open_popup(doomed, "")
            await kill(browser, browser.pages() - before)
            with pytest.raises(PageCrashedError):
                await doomed.session.execute(Keypress(("Enter",)))
            await doomed.session.execute(Keypress(("Enter",)))
            assert (await doomed.step()).page.tabs == 1

    browser.browse(scenario)


@pytest.mark.parametrize("features", ["", pytest.param("noopener", marks=pytest.mark.campaign)])
def test_a_page_that_opens_another_and_then_loops_is_the_one_that_is_stopped(
    browser: Server, features: str
) -> None:
    """It keeps a processor busy until it is, whatever stands in front of it."""

    async def scenario(visitor: Visitor) -> None:
        visitor.site.pages["/popup"] = POPUP
        await visitor.show(opener(f"window.open(`/popup`, ``, `{features}`); for (;;) {{}}"))
        open_and_loop = ClickCoords(*middle(await visitor.element("Open")))
        answer = await visitor.session.step(open_and_loop, within=SOON)
        assert answer.error is not None
        assert answer.error.type == "page_unresponsive"
        assert answer.page.tabs == 2
        assert size_of(answer.screenshot) == VIEWPORT
        answer = await visitor.step(Back())
        assert (answer.page.title, answer.settled) == ("Opener", True)
        await work_on(visitor)

    browser.browse(scenario)


REFUSED = {
    "Local": ("<a href='file:///etc/passwd'>", "pages may not open file:///etc/passwd"),
    "Data": ("<a href='data:text/html,x'>", "pages may not open data:text/html,x"),
    "Mail": ("<a href='mailto:ada@a.test'>", "mailto:ada@a.test is not opened by a browser"),
    "Private": ("<a href='http://10.1.2.3/'>", "10.1.2.3: "),
}


def test_what_does_not_open_is_told(browser: Server) -> None:
    async def scenario(visitor: Visitor) -> None:
        links = "".join(f"<p>{start}{name}</a>" for name, (start, _) in REFUSED.items())
        for name, (_, told) in REFUSED.items():
            await visitor.show(links)
            answer = await visitor.click(name)
            details = [each.detail for each in answer.incidents if each.kind == "refused"]
            assert [each for each in details if each.startswith(told)], (name, answer.incidents)
        visitor.site.pages["/next"] = "<title>Next</title>"
        await visitor.show("<a href='/next' target=_blank>Next</a>")
        answer = await visitor.click("Next")
        assert answer.incidents == (Incident("new_tab", f"{visitor.site.url}/next"),)

    browser.browse(scenario)
