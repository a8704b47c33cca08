"""Rollouts full of hostile strings, in a real browser: nothing runs, nothing is asked for.

Every view is opened over the corpus, everything on it that can be unfolded is unfolded. `Visit`
fails for any request to another server than the viewer, any error of a script, and any line on the
console, so even an attempt that the page's policy stopped is seen.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.viewer.hostile_rollouts import PER_FAILURE, hostile, write_rollouts
from tests.e2e.viewer.serving import Viewer, Visit, viewing, visiting

UNFOLD = """
() => {
  document.querySelectorAll('details').forEach(each => { each.open = true; });
  return document.querySelectorAll('details').length;
}
"""
NOTHING_FOREIGN = """
() => [...document.querySelectorAll('*')].flatMap(node => {
  const found = [];
  const tag = node.localName;
  if (['iframe', 'object', 'embed', 'base', 'template', 'form', 'video', 'audio'].includes(tag))
    found.push(tag);
  if (tag === 'script' && !node.src.startsWith(location.origin + '/static/')) found.push('script');
  if (tag === 'style') found.push('style');
  for (const { name, value } of node.attributes) {
    if (name.startsWith('on') || name === 'srcdoc') found.push(`${tag} ${name}`);
    if (['href', 'src', 'action', 'formaction', 'xlink:href'].includes(name)
        && !/^(\\/(?!\\/)|#|data:image\\/(png|jpeg|gif|webp);base64,)/.test(value))
      found.push(`${tag} ${name}=${value.slice(0, 60)}`);
  }
  return found;
})
"""


class Canary:
    """A server that must not get any request."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[str] = []


@contextmanager
def listening() -> Iterator[Canary]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            canary.asked.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        canary = Canary(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield canary
        finally:
            server.shutdown()
            thread.join(10)


class Stage(NamedTuple):
    canary: Canary
    viewer: Viewer
    browser: Browser
    folder: Path


@pytest.fixture(scope="module")
def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("hostile")
    with listening() as canary:
        for name in ("one.jsonl", "two <img src=x onerror=alert(1)>.jsonl"):
            write_rollouts(folder / name, canary.address)
        with viewing([folder]) as viewer:
            yield Stage(canary, viewer, browser, folder)


@contextmanager
def innocent(stage: Stage) -> Iterator[Visit]:
    """A visit in which nothing of the corpus may have had an effect."""
    with visiting(stage.browser, stage.viewer) as visit:
        visit.page.on("dialog", lambda dialog: visit.problems.append(f"dialog: {dialog.message}"))
        yield visit
        assert visit.page.evaluate("window.pwned") is None
    assert stage.canary.asked == []


def settled(page: Page) -> None:
    """Everything that was asked for has come, everything that can be unfolded is."""
    quiet(page)
    if page.evaluate(UNFOLD):
        quiet(page)
    assert page.evaluate(NOTHING_FOREIGN) == []


def quiet(page: Page) -> None:
    """Until nothing more was loaded for a moment; the stream of events never ends."""
    loaded = "performance.getEntriesByType('resource').length"
    before = -1
    for _ in range(200):
        now = page.evaluate(f"document.readyState === 'complete' ? {loaded} : -1")
        if now == before >= 0:
            return
        before = now
        page.wait_for_timeout(50)
    raise AssertionError("the page goes on loading")


def test_no_view_of_files_runs_or_loads_what_is_in_them(stage: Stage) -> None:
    left, right = stage.viewer.sources()
    with innocent(stage) as visit:
        for name in ("tasks", "rollouts", "live", "rollouts?status=failed"):
            settled(visit.go(f"/s/{left}/{name}"))
        compared = f"/compare?left={left}&right={right}"
        for path in ("/", f"/s/{left}/", f"/s/{right}/", compared, "/configuration"):
            settled(visit.go(path))


def test_no_rollout_runs_or_loads_what_is_in_it(stage: Stage) -> None:
    source = stage.viewer.sources()[0]
    listed = stage.viewer.json(f"/api/s/{source}/rollouts?limit=500")["entries"]
    assert len(listed) == len(hostile("")) + len(hostile("")) // PER_FAILURE
    with innocent(stage) as visit:
        page = visit.go(f"/s/{source}/rollouts/{listed[0]['id']}")
        for entry in listed[1:]:
            page.wait_for_selector(".rollout-head")
            settled(page)
            page.evaluate("performance.clearResourceTimings()")
            page.keyboard.press("]")
            page.wait_for_url(f"**/rollouts/{entry['id']}*")
        settled(page)


def test_repeats_side_by_side_run_nothing(stage: Stage) -> None:
    source = stage.viewer.sources()[0]
    with innocent(stage) as visit:
        for task in range(0, len(hostile("")), PER_FAILURE):
            settled(visit.go(f"/s/{source}/tasks/{task}"))


def test_a_page_that_was_taken_away_runs_nothing_when_it_is_opened_as_a_file(stage: Stage) -> None:
    source = stage.viewer.sources()[0]
    entries = stage.viewer.json(f"/api/s/{source}/rollouts?limit=500")["entries"]
    page = stage.browser.new_context().new_page()
    problems: list[str] = []
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on("console", lambda line: problems.append(f"console: {line.text}"))
    page.on("pageerror", lambda error: problems.append(f"script: {error}"))
    page.on("request", lambda request: problems.append(request.url))
    for number, entry in enumerate(entries):
        saved = stage.folder / "saved.html"
        saved.write_bytes(stage.viewer.body(f"/api/s/{source}/rollouts/{entry['id']}/page.html"))
        page.goto(saved.as_uri())
        page.evaluate(UNFOLD)
        assert page.evaluate("window.pwned") is None
        assert page.locator("script, iframe, object, embed, base, form, link").count() == 0
        opened = [url for url in problems if not url.startswith("data:image/")]
        assert opened == [saved.as_uri()] * (number + 1)
    page.context.close()
    assert stage.canary.asked == []


def test_searching_for_a_hostile_string_runs_nothing(stage: Stage) -> None:
    source = stage.viewer.sources()[0]
    with innocent(stage) as visit:
        for text in hostile("http://127.0.0.1:9")[::8]:
            page = visit.go(f"/s/{source}/rollouts")
            page.keyboard.press("/")
            page.keyboard.insert_text(text[:200].replace("\n", " "))
            page.keyboard.press("Enter")
            settled(page)
