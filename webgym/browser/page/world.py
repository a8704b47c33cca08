"""Our script inside a tab's page, in a world of its own.

The world belongs to the main frame: it sees the page's elements, the page's scripts do not see it.
The script is put there when the first call needs it, once for each document. A call is given up as
soon as the document that it asks is gone: no answer may come of that one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from webgym.browser.chromium.connection import CallError
from webgym.browser.page.activity import Activity
from webgym.browser.page.errors import DocumentGoneError, ScriptError
from webgym.browser.page.script import SOURCE

ANSWERED_WITHIN = 10.0
"""A page that lets our script wait longer is stuck in scripts of its own."""
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


class Wire(Protocol):
    """The way to a tab. `call` raises CallError where Chromium refuses, TimeoutError."""

    def send(self, method: str, params: dict[str, object] | None = None) -> None: ...

    async def call(
        self, method: str, params: dict[str, object] | None = None, *, deadline: float
    ) -> msgspec.Raw: ...


class _Context(msgspec.Struct, rename="camel"):
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


_READ_CONTEXT = msgspec.json.Decoder(_Context).decode
_READ_EVALUATED = msgspec.json.Decoder(_Evaluated).decode
_READ_PROPERTIES = msgspec.json.Decoder(_Properties).decode


class World:
    """The world of our script in one tab: an `Evaluator`, and what else is asked there."""

    def __init__(self, wire: Wire, activity: Activity) -> None:
        self._wire = wire
        self._activity = activity
        self._script: tuple[int, str] | None = None
        self._asking: set[asyncio.Timeout] = set()

    async def evaluate(
        self, function: str, arguments: list[object], deadline: float, *, wait: bool = False
    ) -> object:
        """What a function of our script returns; `wait`: what its promise becomes.

        Raises DocumentGoneError when the page navigates meanwhile, ScriptError when it throws,
        TimeoutError when the page is stuck in scripts of its own.
        """
        how: dict[str, object] = {"returnByValue": True, "awaitPromise": wait}
        result = await self._call_script(_CALL, [function, *arguments], how, deadline)
        return msgspec.json.decode(result.value)

    @asynccontextmanager
    async def handles(self, function: str, deadline: float) -> AsyncIterator[list[str | None]]:
        """What is in the list that a function of our script returns, for the length of the block.

        None for what is no object. Raises as `evaluate`.
        """
        how: dict[str, object] = {"objectGroup": function}
        listed = await self._call_script(_CALL, [function], how, deadline)
        try:
            params: dict[str, object] = {"objectId": listed.object_id, "ownProperties": True}
            answer = await self._wire.call("Runtime.getProperties", params, deadline=deadline)
            yield [
                entry.value.object_id if entry.value is not None else None
                for entry in _READ_PROPERTIES(answer).result
                if entry.name.isdecimal()
            ]
        except CallError as error:
            raise DocumentGoneError(f"{function}: {error.message}") from error
        finally:
            self._wire.send("Runtime.releaseObjectGroup", {"objectGroup": function})

    async def painting(self, deadline: float) -> str:
        """Whether a picture can be taken: "painted", or why none would come.

        "empty": nothing of the document has come yet. "blocked": something that it loads keeps it
        from being shown.
        """
        if self._activity.dom_ready and not self._activity.is_loading:
            return "painted"
        how: dict[str, object] = {"returnByValue": True, "awaitPromise": True}
        result = await self._call_script(_PAINTING, [], how, deadline)
        return str(msgspec.json.decode(result.value))

    async def evaluate_in(self, frame: str, expression: str, deadline: float) -> object:
        """What an expression is in our world of any frame, without our script.

        Raises CallError where the frame is gone, ScriptError where it throws, TimeoutError.
        """
        context = await self._context(frame, deadline)
        params: dict[str, object] = {
            "expression": expression,
            "contextId": context,
            "returnByValue": True,
        }
        answer = await self._wire.call("Runtime.evaluate", params, deadline=deadline)
        return msgspec.json.decode(_result(_READ_EVALUATED(answer)).value)

    def document_gone(self) -> None:
        """The page has gone on: what is being asked of the document before is given up."""
        for asking in self._asking:
            asking.reschedule(asyncio.get_running_loop().time())

    async def _call_script(
        self, function: str, arguments: list[object], how: dict[str, object], deadline: float
    ) -> _RemoteObject:
        """Call a function in the world of our script, which is its `this`."""
        soon = min(deadline, asyncio.get_running_loop().time() + ANSWERED_WITHIN)
        params: dict[str, object] = {
            "functionDeclaration": function,
            "arguments": [{"value": value} for value in arguments],
            **how,
        }
        document = self._activity.document
        try:
            async with self._while_it_stays():
                params["objectId"] = await self._provide_script(soon)
                answer = await self._wire.call("Runtime.callFunctionOn", params, deadline=soon)
        except CallError as error:
            self._script = None
            raise DocumentGoneError(f"the page went on: {error.message}") from error
        except TimeoutError as error:
            if document != self._activity.document or self._activity.awaits_document:
                raise DocumentGoneError("the page went on") from error
            raise
        return _result(_READ_EVALUATED(answer))

    @asynccontextmanager
    async def _while_it_stays(self) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as asking:
            self._asking.add(asking)
            try:
                yield
            finally:
                self._asking.discard(asking)

    async def _provide_script(self, deadline: float) -> str:
        document = self._activity.document
        if self._script is not None and self._script[0] == document:
            return self._script[1]
        context = await self._context(self._activity.main.id, deadline)
        params: dict[str, object] = {"expression": SOURCE, "contextId": context}
        answer = await self._wire.call("Runtime.evaluate", params, deadline=deadline)
        evaluated = _READ_EVALUATED(answer)
        handle = evaluated.result.object_id
        if handle is None:
            thrown = evaluated.exception_details or _Thrown("it gave no object")
            raise ScriptError(f"the page script did not load: {_describe(thrown)}")
        self._script = (document, handle)
        return handle

    async def _context(self, frame: str, deadline: float) -> int:
        """Chromium makes the world of this name where the frame's document has none yet."""
        params: dict[str, object] = {"frameId": frame, "worldName": _WORLD}
        answer = await self._wire.call("Page.createIsolatedWorld", params, deadline=deadline)
        return _READ_CONTEXT(answer).execution_context_id


def _result(evaluated: _Evaluated) -> _RemoteObject:
    if evaluated.exception_details is not None:
        raise ScriptError(_describe(evaluated.exception_details))
    return evaluated.result


def _describe(thrown: _Thrown) -> str:
    text = thrown.exception.description if thrown.exception else ""
    return (text or thrown.text)[:TEXT_LIMIT]
