"""What a page is busy with: a navigation of its main frame, and requests in flight.

A state machine fed by DevTools events; it owns no task. Whoever waits for a page to come to rest
asks `is_navigating` and `pending_requests`, and awaits `changed` in between.

A navigation goes from being asked for, over the answer of its server, which makes the new document
the page's, to the end of loading. Requests count that began since the step did: what a page asked
for before is not a consequence of the step. What it asks for over and over is a poll, and is not
waited for again in that document.
"""

import asyncio
from collections.abc import Callable

import msgspec

BACKGROUND_AFTER = 3.0
"""A request this old is a stream or a long poll, which no page waits for."""
ANSWER_GOES_ON = 0.5
"""A body of which nothing came for so long is one that the page does not read to its end."""
MAX_REQUESTS = 2_000
REQUESTED_FOR = 0.5
"""How long a navigation that a script asked for may take to begin."""
MAX_REPEATS = 3
"""Times that a page may ask for the same in one step, one time after the other."""
_REPEATED = frozenset({"Fetch", "XHR"})
_WITHIN_DOCUMENT = frozenset({"sameDocument", "historySameDocument"})
_NEVER_WAITED_FOR = frozenset(
    {"WebSocket", "EventSource", "Media", "Ping", "Prefetch", "Preflight"}
)


class Frame(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    loader_id: str = ""
    parent_id: str | None = None
    url: str = ""
    unreachable_url: str | None = None


class _Navigated(msgspec.Struct):
    frame: Frame


class _OfFrame(msgspec.Struct, rename="camel"):
    frame_id: str
    disposition: str = "currentTab"
    loader_id: str = ""
    navigation_type: str = ""


class _Response(msgspec.Struct):
    status: int


class _Asked(msgspec.Struct, frozen=True):
    url: str = ""
    method: str = "GET"


class _OfRequest(msgspec.Struct, rename="camel"):
    request_id: str
    loader_id: str = ""
    frame_id: str = ""
    type: str = "Other"
    request: _Asked = _Asked()
    response: _Response | None = None


class _Request(msgspec.Struct):
    """`what` names it, where it may be a poll. `answered`: when something of its answer came."""

    began: float
    loader: str
    what: tuple[str, str] | None = None
    answered: float | None = None

    def is_awaited(self, now: float) -> bool:
        if self.answered is not None:
            return now - self.answered < ANSWER_GOES_ON
        return now - self.began < BACKGROUND_AFTER


_READ_NAVIGATED = msgspec.json.Decoder(_Navigated).decode
_READ_FRAME = msgspec.json.Decoder(_OfFrame).decode
_READ_REQUEST = msgspec.json.Decoder(_OfRequest).decode


class Activity:
    """The main frame `frame`'s state, as events told it."""

    def __init__(self, frame: str, clock: Callable[[], float]) -> None:
        self.main = Frame(frame)
        self.document = 0
        """Counts the documents of the main frame."""
        self.dom_ready = True
        """Whether the document was read to its end."""
        self.is_loading = False
        self._frame = frame
        self._clock = clock
        self._answered: tuple[str, int | None] = ("", None)
        self._given_up = -1
        self._coming: str | None = None
        self._requested_at = float("-inf")
        self._step_began = float("-inf")
        self._requests: dict[str, _Request] = {}
        self._ended: dict[tuple[str, str], int] = {}
        self._polls: set[tuple[str, str]] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "Page.frameRequestedNavigation": self._navigation_requested,
            "Page.frameStartedNavigating": self._navigation_began,
            "Page.frameStartedLoading": self._loading_began,
            "Page.frameStoppedLoading": self._loading_ended,
            "Page.frameNavigated": self._navigated,
            "Page.domContentEventFired": self._document_ready,
            "Network.requestWillBeSent": self._request_began,
            "Network.responseReceived": self._response_came,
            "Network.dataReceived": self._data_came,
            "Network.loadingFinished": self._request_ended,
            "Network.loadingFailed": self._request_failed,
        }

    def hear(self, method: str, params: msgspec.Raw) -> None:
        handler = self._handlers.get(method)
        if handler is not None:
            handler(params)

    @property
    def status(self) -> int | None:
        """Of the HTTP answer that the document came in, if it came in one."""
        loader, status = self._answered
        return status if loader == self.main.loader_id else None

    @property
    def awaits_document(self) -> bool:
        """Whether a server has yet to answer with the next document.

        Chromium answers nothing that concerns the page's scripts meanwhile.
        """
        return self._coming is not None

    def awaits(self, loader: str) -> bool:
        """Whether it is this document that has yet to come."""
        return self._coming is not None and self._coming == loader

    @property
    def is_requested(self) -> bool:
        """Whether another document was asked for just now."""
        return self.awaits_document or self._clock() - self._requested_at < REQUESTED_FOR

    @property
    def is_navigating(self) -> bool:
        """Whether a document is being loaded, or is about to be."""
        return self.is_requested or (self.is_loading and not self.was_given_up)

    @property
    def was_given_up(self) -> bool:
        """Whether nobody waits any longer for the document to be loaded."""
        return self._given_up == self.document

    def give_up(self) -> None:
        """Wait no longer for what the document loads now; what it asks for later is its affair."""
        self._given_up = self.document
        self._requests.clear()

    def begin_step(self) -> None:
        """Something is done to the page now: what it asks for from now on may be a consequence."""
        self._step_began = self._clock()
        self._ended.clear()

    def pending_requests(self) -> int:
        """Requests that the page may be waiting for."""
        now, since = self._clock(), self._step_began
        requests = self._requests.values()
        return sum(request.began >= since and request.is_awaited(now) for request in requests)

    async def changed(self, seconds: float) -> bool:
        """Wait for the next change, this long at most; says whether there was one."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            done, _ = await asyncio.wait([waiter], timeout=max(0.0, seconds))
        finally:
            self._waiters.discard(waiter)
        return bool(done)

    def wake(self) -> None:
        """Let whoever waits look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def begin_navigation(self) -> None:
        """A navigation was asked for by us: its document is awaited from now on."""
        self._requested_at = self._clock()

    def end_navigation(self) -> None:
        """What was asked for has begun, or never will."""
        self._requested_at = float("-inf")

    def _navigation_requested(self, params: msgspec.Raw) -> None:
        event = _READ_FRAME(params)
        if event.frame_id == self._frame and event.disposition == "currentTab":
            self._requested_at = self._clock()
            self.wake()

    def _navigation_began(self, params: msgspec.Raw) -> None:
        event = _READ_FRAME(params)
        if event.frame_id == self._frame and event.navigation_type not in _WITHIN_DOCUMENT:
            self._coming = event.loader_id
            self.wake()

    def _loading_began(self, params: msgspec.Raw) -> None:
        if _READ_FRAME(params).frame_id == self._frame:
            self.is_loading = True
            self.wake()

    def _loading_ended(self, params: msgspec.Raw) -> None:
        if _READ_FRAME(params).frame_id == self._frame:
            self.is_loading = False
            self._coming = None
            self.end_navigation()
            self.wake()

    def _navigated(self, params: msgspec.Raw) -> None:
        frame = _READ_NAVIGATED(params).frame
        if frame.parent_id is not None:
            return
        self.main = frame
        self.document += 1
        self.dom_ready = False
        self._coming = None
        self.end_navigation()
        self._polls.clear()
        self._requests = {
            number: request
            for number, request in self._requests.items()
            if request.loader == frame.loader_id
        }
        self.wake()

    def _document_ready(self, _: msgspec.Raw) -> None:
        self.dom_ready = True
        self.wake()

    def _request_began(self, params: msgspec.Raw) -> None:
        event = _READ_REQUEST(params)
        url = event.request.url
        # One without a document is a worker's script. Its end is told to the worker's own session.
        if event.type in _NEVER_WAITED_FOR or not event.loader_id or url.startswith("data:"):
            return
        what = (event.request.method, url.partition("?")[0]) if event.type in _REPEATED else None
        if len(self._requests) >= MAX_REQUESTS or what in self._polls:
            return
        self._requests[event.request_id] = _Request(self._clock(), event.loader_id, what)
        self.wake()

    def _response_came(self, params: msgspec.Raw) -> None:
        event = _READ_REQUEST(params)
        if event.type == "Document" and event.frame_id == self._frame and event.response:
            self._answered = (event.loader_id, event.response.status)
        self._note_answer(event.request_id)

    def _data_came(self, params: msgspec.Raw) -> None:
        self._note_answer(_READ_REQUEST(params).request_id)

    def _note_answer(self, number: str) -> None:
        request = self._requests.get(number)
        if request is not None:
            request.answered = self._clock()

    def _request_ended(self, params: msgspec.Raw) -> None:
        request = self._requests.pop(_READ_REQUEST(params).request_id, None)
        if request is None:
            return
        if request.what is not None and len(self._ended) < MAX_REQUESTS:
            times = self._ended[request.what] = self._ended.get(request.what, 0) + 1
            if times > MAX_REPEATS:
                self._begin_ignoring(request.what)
        self.wake()

    def _begin_ignoring(self, poll: tuple[str, str]) -> None:
        self._polls.add(poll)
        requests = self._requests.items()
        self._requests = {number: each for number, each in requests if each.what != poll}

    def _request_failed(self, params: msgspec.Raw) -> None:
        if _READ_REQUEST(params).request_id == self._coming:
            # Its server had nothing to show: a download, or an answer without content.
            self._coming = None
            self.wake()
        self._request_ended(params)
