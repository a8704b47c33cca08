"""The storage state of a session: cookies and local storage, put in at its start and read back.

Cookies belong to the context. A local storage can only be reached from a page of its origin, so an
additional tab visits each origin, with an empty page that we answer ourselves: nothing is sent to
the site. Read are the origins that were put in, and those that the session's tabs have visited.
Storage of frames from other sites, session storage and databases are not part of a state.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.contract.errors import BadRequestError
from webgym.browser.contract.profile import (
    MOST_ORIGINS,
    StorageState,
    StoredCookie,
    StoredItem,
    StoredOrigin,
)
from webgym.browser.page.tab import Tab
from webgym.browser.page.tabs import SessionTabs

POLL_SECONDS = 0.05
_WRITE = "for (const [name, value] of {items}) localStorage.setItem(name, value)"
_READ = "Object.entries(localStorage)"


class _Cookies(msgspec.Struct):
    cookies: tuple[StoredCookie, ...]


class _RemoteValue(msgspec.Struct):
    value: object = None


class _StorageValue(msgspec.Struct, rename="camel"):
    result: _RemoteValue
    exception_details: object = None


_READ_COOKIES = msgspec.json.Decoder(_Cookies).decode
_READ_EVALUATED = msgspec.json.Decoder(_StorageValue).decode


async def load_storage(tabs: SessionTabs, state: StorageState, deadline: float) -> None:
    """Put a state into a new context. Raises BadRequestError if the browser does not accept it."""
    if state.cookies:
        cookies = [_cookie_parameters(cookie) for cookie in state.cookies]
        try:
            await tabs.call_context("Storage.setCookies", {"cookies": cookies}, deadline)
        except CallError as error:
            raise BadRequestError(f"storage_state.cookies: {error}") from error
    filled = [stored for stored in state.origins if stored.local_storage]
    if not filled:
        return
    async with _helper_tab(tabs, deadline) as tab:
        for stored in filled:
            origin = stored.origin.rstrip("/").lower()
            items = msgspec.json.encode([[item.name, item.value] for item in stored.local_storage])
            written = await _evaluate_at(
                tab, origin, f"{_WRITE.format(items=items.decode())};true", deadline
            )
            if written is not True:
                raise BadRequestError(
                    f"the local storage of {origin} cannot be set: is it too large?"
                )
            tabs.visited.setdefault(origin)


async def save_storage(tabs: SessionTabs, deadline: float) -> StorageState:
    """The state of a session now. Raises what `DevToolsConnection.call` raises."""
    cookies = _READ_COOKIES(await tabs.call_context("Storage.getCookies", {}, deadline)).cookies
    origins = []
    visited = tabs.all_visited()[-MOST_ORIGINS:]
    if visited:
        async with _helper_tab(tabs, deadline) as tab:
            for origin in visited:
                entries = await _evaluate_at(tab, origin, _READ, deadline)
                items = msgspec.convert(entries or [], tuple[tuple[str, str], ...])
                if items:
                    stored = tuple(StoredItem(name, value) for name, value in sorted(items))
                    origins.append(StoredOrigin(origin, stored))
    return StorageState(cookies, tuple(origins))


@asynccontextmanager
async def _helper_tab(tabs: SessionTabs, deadline: float) -> AsyncIterator[Tab]:
    tab = await tabs.open_blank(deadline)
    try:
        await tab.answer_requests(deadline)
        yield tab
    finally:
        tabs.discard(tab)


async def _evaluate_at(tab: Tab, origin: str, expression: str, deadline: float) -> object:
    """The value of an expression on an empty page of this origin; None if it throws."""
    await tab.call("Page.navigate", {"url": f"{origin}/"}, deadline=deadline)
    guarded = f"location.origin === {msgspec.json.encode(origin).decode()}"
    while True:
        evaluated = _READ_EVALUATED(
            await tab.call(
                "Runtime.evaluate",
                {
                    "expression": f"({guarded}) && [eval({_text(expression)})]",
                    "returnByValue": True,
                },
                deadline=deadline,
            )
        )
        value = evaluated.result.value
        if isinstance(value, list):
            return value[0]
        if evaluated.exception_details is not None:
            return None
        await asyncio.sleep(POLL_SECONDS)


def _text(expression: str) -> str:
    return msgspec.json.encode(expression).decode()


def _cookie_parameters(cookie: StoredCookie) -> dict[str, object]:
    given = {
        name: value for name, value in msgspec.to_builtins(cookie).items() if value is not None
    }
    if cookie.expires < 0:
        given.pop("expires", None)
    if cookie.url is None:
        given.setdefault("path", "/")
    return given
