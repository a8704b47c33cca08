"""The wire to a browser, whose part is played here: what it quotes of pages, and answers late."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from rollgym.engine import run as run_loop
from tests.cases import for_each
from webgym.browser.chromium import connection as connection_module
from webgym.browser.chromium.connection import DevToolsConnection
from webgym.browser.chromium.targets import TargetInfo, Targets

PATIENCE = 60.0


class Browser:
    """The other end of the pipes: it says what it is told to."""

    def __init__(self, said: "asyncio.StreamReader", outgoing: int) -> None:
        self._said = said
        self._outgoing = outgoing

    def say(self, message: bytes) -> None:
        with os.fdopen(self._outgoing, "wb", closefd=False) as pipe:
            pipe.write(message + b"\0")

    async def hear(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return msgspec.json.decode((await self._said.readuntil(b"\0"))[:-1])


@asynccontextmanager
async def wire() -> AsyncIterator[tuple[DevToolsConnection, Browser]]:
    incoming, browser_writes = os.pipe()
    browser_reads, outgoing = os.pipe()
    connection = DevToolsConnection(incoming, outgoing)
    await connection.open()
    said = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(said), os.fdopen(browser_reads, "rb", buffering=0)
    )
    try:
        yield connection, Browser(said, browser_writes)
    finally:
        connection.close()
        transport.close()
        os.close(browser_writes)
        await asyncio.sleep(0)


def run(scenario: Callable[[DevToolsConnection, Browser], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with wire() as (connection, browser):
            await scenario(connection, browser)

    run_loop(connected())


def soon(seconds: float = PATIENCE) -> float:
    return asyncio.get_running_loop().time() + seconds


@for_each(
    ("quoted", "read"),
    [
        (rb"\ud83d", "\ufffd"),
        (rb"\ud83d!", "\ufffd!"),
        (rb"\uDE00", "\ufffd"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\ud83dA\ude00", "\ufffdA\ufffd"),
        (rb"\\ud83d \ud83d", "\\ud83d \ufffd"),
        (rb"\\\ud83d", "\\\ufffd"),
    ],
)
def test_half_of_a_surrogate_pair_on_a_page_does_not_end_the_wire(quoted: bytes, read: str) -> None:
    async def scenario(connection: DevToolsConnection, browser: Browser) -> None:
        heard: list[object] = []
        connection.listen("page", lambda _, params: heard.append(msgspec.json.decode(params)))
        browser.say(b'{"method":"said","sessionId":"page","params":{"text":"%b"}}' % quoted)
        calling = asyncio.ensure_future(connection.call("ask", deadline=soon()))
        number = (await browser.hear())["id"]
        browser.say(b'{"id":%d,"result":{"text":"%b"}}' % (number, quoted))
        assert msgspec.json.decode(await calling) == {"text": read}
        assert heard == [{"text": read}]

    run(scenario)


def test_a_message_that_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(connection: DevToolsConnection, browser: Browser) -> None:
        browser.say(b'{"method":"said","params":{"text":"\\u12')
        calling = asyncio.ensure_future(connection.call("ask", deadline=soon()))
        number = (await browser.hear())["id"]
        browser.say(b'{"id":%d,"result":{}}' % number)
        assert msgspec.json.decode(await calling) == {}

    run(scenario)
    assert "cannot be read" in caplog.text


def test_a_message_that_is_too_long_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "MAX_MESSAGE", 100_000)

    async def scenario(connection: DevToolsConnection, browser: Browser) -> None:
        calling = asyncio.ensure_future(connection.call("ask", deadline=soon()))
        number = (await browser.hear())["id"]
        long = b'{"method":"said","params":{"text":"%b"}}' % (b"x" * 300_000)
        await asyncio.to_thread(browser.say, long + b'\0{"id":%d,"result":{}}' % number)
        assert msgspec.json.decode(await calling) == {}

    run(scenario)


class Nobody:
    """Hears of a context's tabs."""

    def tab_attached(self, session: str, target: TargetInfo) -> None: ...

    def tab_detached(self, session: str) -> None: ...

    download_folder = None

    def download_progressed(self, guid: str, received: float, state: str) -> None: ...

    def identity(self, usual: Mapping[str, object] | None) -> Mapping[str, object] | None: ...


def test_a_context_that_is_made_too_late_is_ended() -> None:
    async def scenario(connection: DevToolsConnection, browser: Browser) -> None:
        targets = Targets(connection)
        with pytest.raises(TimeoutError):
            await targets.create_context(None, Nobody(), soon(0.01))
        asked = await browser.hear()
        browser.say(b'{"id":%d,"result":{"browserContextId":"late"}}' % asked["id"])
        told = await browser.hear()
        assert told["method"] == "Target.disposeBrowserContext"
        assert told["params"] == {"browserContextId": "late"}

    run(scenario)
