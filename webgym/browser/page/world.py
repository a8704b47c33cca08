"""Our script inside the page of a tab, in an isolated world.

A world sees the elements of the page, but the scripts of the page do not see it. The script is
loaded when the first call needs it, once for each document. The tab has prepared new documents for
it (`prepare`); any other document gets the sources then. The world of the main frame also
reaches the frames of the same origin; a frame of another origin has a world of its own. A call is
given up as soon as the document of the page is gone, because then no answer can come.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.page.activity import PageActivity
from webgym.browser.page.elements import DocumentGoneError, PageScriptError
from webgym.browser.page.script import LOADER, NUMBERED_ELEMENTS, PREPARED, SOURCE

if TYPE_CHECKING:
    from webgym.browser.page.tab import Tab


ANSWERED_WITHIN = 10.0
"""A page that lets our script wait longer is stuck in its own scripts."""
TEXT_LIMIT = 500
_WORLD = "rollgym"
_CALL = "function (name, ...given) { return this[name](...given); }"
_PAINTING = """function () {
  if (document.contentType === "text/html" && document.body === null) return "empty";
  return new Promise((done) => {
    requestAnimationFrame(() => done("painted"));
    setTimeout(() => done("blocked"), 1000);
  });
}"""


class _CreatedWorld(msgspec.Struct, rename="camel"):
    execution_context_id: int


class _RemoteObject(msgspec.Struct, rename="camel"):
    object_id: str | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")
    description: str = ""


class _Thrown(msgspec.Struct):
    text: str = ""
    exception: _RemoteObject | None = None


class _Evaluated(msgspec.Struct, rename="camel"):
    result: _RemoteObject
    exception_details: _Thrown | None = None


class _Property(msgspec.Struct):
    name: str
    value: _RemoteObject | None = None


class _Properties(msgspec.Struct):
    result: list[_Property] = []


class _FrameOwner(msgspec.Struct, rename="camel"):
    frame_id: str = ""


class _OwnerNode(msgspec.Struct):
    node: _FrameOwner


_READ_FRAME_OWNER = msgspec.json.Decoder(_OwnerNode).decode
_READ_CONTEXT = msgspec.json.Decoder(_CreatedWorld).decode
_READ_EVALUATED = msgspec.json.Decoder(_Evaluated).decode
_READ_PROPERTIES = msgspec.json.Decoder(_Properties).decode


class ScriptWorld(ABC):
    """The world of our script in one document: a `ScriptEvaluator`."""

    def __init__(self, tab: "Tab") -> None:
        self.adopted: dict[int, tuple[int, int]] = {}
        self._tab = tab
        self._frames: dict[int, FrameWorld] = {}

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object:
        """The result of a function of our script; with `wait`, the result of its promise.

        Raises DocumentGoneError if the page navigates meanwhile, PageScriptError if the function
        throws, TimeoutError if the page is stuck in its own scripts.
        """
        how: dict[str, object] = {"returnByValue": True, "awaitPromise": wait}
        plain = msgspec.to_builtins([function, *arguments])
        result = await self._call_script(_CALL, plain, how, deadline)
        return msgspec.json.decode(result.value)

    @asynccontextmanager
    async def handles(
        self, function: str, deadline: float, *arguments: object
    ) -> AsyncIterator[list[str | None]]:
        """Handles of the objects in the list that a function returns, for the length of the block.

        None for values that are not objects. Raises the same errors as `evaluate`.
        """
        how: dict[str, object] = {"objectGroup": function}
        listed = await self._call_script(_CALL, [function, *arguments], how, deadline)
        try:
            params: dict[str, object] = {"objectId": listed.object_id, "ownProperties": True}
            answer = await self._tab.call("Runtime.getProperties", params, deadline=deadline)
            yield [
                entry.value.object_id if entry.value is not None else None
                for entry in _READ_PROPERTIES(answer).result
                if entry.name.isdecimal()
            ]
        except CallError as error:
            raise DocumentGoneError(f"{function}: {error.message}") from error
        finally:
            self._tab.send("Runtime.releaseObjectGroup", {"objectGroup": function})

    async def frame(self, number: int, deadline: float) -> "FrameWorld":
        """The world in the frame whose element has this number. Raises DocumentGoneError."""
        if number not in self._frames:
            async with self.handles(NUMBERED_ELEMENTS, deadline, number) as (handle,):
                if handle is None:
                    raise DocumentGoneError("the frame was removed")
                params: dict[str, object] = {"objectId": handle}
                answer = await self._tab.call("DOM.describeNode", params, deadline=deadline)
            frame = _READ_FRAME_OWNER(answer).node.frame_id
            if not frame:
                raise DocumentGoneError("the frame has no document")
            self._frames[number] = FrameWorld(self._tab, frame)
        return self._frames[number]

    @property
    def known_frames(self) -> "list[FrameWorld]":
        """The worlds of the frames of other origins that were used so far."""
        return list(self._frames.values())

    @abstractmethod
    async def _call_script(
        self, function: str, arguments: list[object], how: dict[str, object], deadline: float
    ) -> _RemoteObject:
        """Call a function in the world of our script, which is its `this`."""

    async def _load(self, context: int, deadline: float) -> str:
        """Load our script into a world; returns its handle."""
        self.adopted.clear()
        self._frames.clear()
        for expression in (f"globalThis.{LOADER}?.()", SOURCE):
            params: dict[str, object] = {"expression": expression, "contextId": context}
            answer = await self._tab.call("Runtime.evaluate", params, deadline=deadline)
            evaluated = _READ_EVALUATED(answer)
            handle = evaluated.result.object_id
            if handle is not None and evaluated.exception_details is None:
                break
        if handle is None:
            thrown = evaluated.exception_details or _Thrown("it returned no object")
            raise PageScriptError(f"the page script did not load: {_describe(thrown)}")
        return handle

    async def _context(self, frame: str, deadline: float) -> int:
        """The world in a frame. Chromium creates it if the document has none yet."""
        params: dict[str, object] = {"frameId": frame, "worldName": _WORLD}
        answer = await self._tab.call("Page.createIsolatedWorld", params, deadline=deadline)
        return _READ_CONTEXT(answer).execution_context_id


class FrameWorld(ScriptWorld):
    """The world in a frame of another origin than the page."""

    def __init__(self, tab: "Tab", frame: str) -> None:
        super().__init__(tab)
        self._frame = frame
        self._script: tuple[int, str] | None = None

    async def _call_script(
        self, function: str, arguments: list[object], how: dict[str, object], deadline: float
    ) -> _RemoteObject:
        soon = min(deadline, asyncio.get_running_loop().time() + ANSWERED_WITHIN)
        try:
            context = await self._context(self._frame, soon)
            if self._script is None or self._script[0] != context:
                self._script = (context, await self._load(context, soon))
            params = _call_params(self._script[1], function, arguments, how)
            answer = await self._tab.call("Runtime.callFunctionOn", params, deadline=soon)
        except CallError as error:
            raise DocumentGoneError(f"the frame is gone: {error.message}") from error
        return _result(_READ_EVALUATED(answer))


class IsolatedWorld(ScriptWorld):
    """The world in the main frame of a tab, with a few more calls."""

    def __init__(self, tab: "Tab", activity: PageActivity) -> None:
        super().__init__(tab)
        self._activity = activity
        self._script: tuple[int, str] | None = None
        self._running: set[asyncio.Timeout] = set()

    def prepare(self) -> None:
        """Prepare all later documents of the tab, and of their frames, for our script."""
        params: dict[str, object] = {"source": PREPARED, "worldName": _WORLD}
        self._tab.send("Page.addScriptToEvaluateOnNewDocument", params)

    async def painting(self, deadline: float) -> str:
        """Whether a screenshot can be taken: "painted", or the reason why not.

        "empty" means that nothing of the document has arrived yet, "blocked" that a resource
        blocks its rendering.
        """
        if self._activity.dom_ready and not self._activity.is_loading:
            return "painted"
        how: dict[str, object] = {"returnByValue": True, "awaitPromise": True}
        result = await self._call_script(_PAINTING, [], how, deadline)
        return str(msgspec.json.decode(result.value))

    async def evaluate_in(self, frame: str, expression: str, deadline: float) -> object:
        """The value of an expression in our world of any frame, without our script.

        Raises CallError if the frame is gone, PageScriptError if it throws, and TimeoutError.
        """
        context = await self._context(frame, deadline)
        params: dict[str, object] = {
            "expression": expression,
            "contextId": context,
            "returnByValue": True,
        }
        answer = await self._tab.call("Runtime.evaluate", params, deadline=deadline)
        return msgspec.json.decode(_result(_READ_EVALUATED(answer)).value)

    def document_gone(self) -> None:
        """Give up the running calls to the previous document."""
        for running in self._running:
            running.reschedule(asyncio.get_running_loop().time())

    async def _call_script(
        self, function: str, arguments: list[object], how: dict[str, object], deadline: float
    ) -> _RemoteObject:
        soon = min(deadline, asyncio.get_running_loop().time() + ANSWERED_WITHIN)
        document = self._activity.document
        try:
            async with self._while_document_stays():
                script = await self._load_script(soon)
                params = _call_params(script, function, arguments, how)
                answer = await self._tab.call("Runtime.callFunctionOn", params, deadline=soon)
        except CallError as error:
            self._script = None
            raise DocumentGoneError(f"the page navigated: {error.message}") from error
        except TimeoutError as error:
            if document != self._activity.document or self._activity.awaits_document:
                raise DocumentGoneError("the page navigated") from error
            raise
        return _result(_READ_EVALUATED(answer))

    @asynccontextmanager
    async def _while_document_stays(self) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as running:
            self._running.add(running)
            try:
                yield
            finally:
                self._running.discard(running)

    async def _load_script(self, deadline: float) -> str:
        document = self._activity.document
        if self._script is not None and self._script[0] == document:
            return self._script[1]
        context = await self._context(self._activity.main.id, deadline)
        handle = await self._load(context, deadline)
        self._script = (document, handle)
        return handle


def _call_params(
    script: str, function: str, arguments: list[object], how: dict[str, object]
) -> dict[str, object]:
    values = [{"value": value} for value in arguments]
    return {"functionDeclaration": function, "objectId": script, "arguments": values, **how}


def _result(evaluated: _Evaluated) -> _RemoteObject:
    if evaluated.exception_details is not None:
        raise PageScriptError(_describe(evaluated.exception_details))
    return evaluated.result


def _describe(thrown: _Thrown) -> str:
    text = thrown.exception.description if thrown.exception else ""
    return (text or thrown.text)[:TEXT_LIMIT]
