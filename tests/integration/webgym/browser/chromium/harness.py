"""Scenarios with real browsers, on either event loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import uvloop

from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.process import Chromium

PATIENCE = 60.0
Run = Callable[[Callable[[], Awaitable[None]]], None]


@pytest.fixture(params=["uvloop", pytest.param("asyncio", marks=pytest.mark.campaign)])
def run(request: pytest.FixtureRequest) -> Run:
    def run_scenario(scenario: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            async with asyncio.timeout(2 * PATIENCE):
                await scenario()

        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())

    return run_scenario


def soon(seconds: float = PATIENCE) -> float:
    return asyncio.get_running_loop().time() + seconds


@asynccontextmanager
async def launched(browser: Browser) -> AsyncIterator[Chromium]:
    chromium = await Chromium.launch(browser, soon())
    try:
        yield chromium
    finally:
        await chromium.close()


async def open_page(chromium: Chromium, script: str = "") -> None:
    """A page of its own context; what the script does is not waited for."""
    call = chromium.connection.call
    attached: asyncio.Queue[str] = asyncio.Queue()
    chromium.connection.listen(None, lambda method, body: _note(attached, method, body))
    context = await call("Target.createBrowserContext", deadline=soon())
    wanted = msgspec.json.decode(context)["browserContextId"]
    target = {"url": "about:blank", "browserContextId": wanted}
    opening = asyncio.ensure_future(call("Target.createTarget", target, deadline=soon()))
    session = await attached.get()
    chromium.connection.send("Runtime.runIfWaitingForDebugger", session=session)
    await opening
    await call("Runtime.evaluate", {"expression": "1"}, session=session, deadline=soon())
    if script:
        chromium.connection.send("Runtime.evaluate", {"expression": script}, session=session)


def a_program(folder: Path, script: str) -> Path:
    """An executable that is no browser."""
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _note(attached: "asyncio.Queue[str]", method: str, body: msgspec.Raw) -> None:
    if method == "Target.attachedToTarget":
        attached.put_nowait(msgspec.json.decode(body)["sessionId"])
