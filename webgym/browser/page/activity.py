"""What a page is busy with: a navigation of its main frame, and running requests.

A state machine that DevTools events drive; it owns no task. To wait until a page settles, read
`is_navigating` and `pending_requests`, and await `changed` in between.

A navigation starts with its request, continues with the answer of the server, which makes the new
document that of the page, and ends when loading ends. Only requests since the start of the step
count: earlier ones are not a consequence of the step. A request that a page repeats one after the
other is a poll, and is not waited for while it goes on.
"""

import asyncio
import time
from collections.abc import Callable

import msgspec

from webgym.browser.page.elements import StepStart

BACKGROUND_AFTER = 3.0
"""An answer that goes on for this long is a stream, and a request that is this old when a step
starts is a long poll."""
ANSWER_GOES_ON = 0.5
"""If no data arrived for this long, the page does not read the body to its end."""
SOCKET_ANSWER = 1.0
MAX_REQUESTS = 2_000
REQUESTED_FOR = 0.5
"""How long a navigation that a script requested may take to start."""
MAX_REPEATS = 3
"""How often a page may repeat a request in one step before it counts as a poll."""
POLL_ENDED_AFTER = 2.0
"""A poll that was not repeated for this long before a step has ended."""
BODY_LIMIT = 300
"""Characters of a body that tell requests to one address apart."""
_REPEATED = frozenset({"Fetch", "XHR"})
_WITHIN_DOCUMENT = frozenset({"sameDocument", "historySameDocument"})
_NOT_AWAITED = frozenset({"WebSocket", "EventSource", "Media", "Ping", "Prefetch", "Preflight"})


class FrameInfo(msgspec.Struct, frozen=True, rename="camel"):
    id: str
    loader_id: str = ""
    parent_id: str | None = None
    url: str = ""
    unreachable_url: str | None = None


class _Navigated(msgspec.Struct):
    frame: FrameInfo


class _OfFrame(msgspec.Struct, rename="camel"):
    frame_id: str
    disposition: str = "currentTab"
    loader_id: str = ""
    navigation_type: str = ""


class _ResponseInfo(msgspec.Struct):
    status: int


class _RequestInfo(msgspec.Struct, frozen=True, rename="camel"):
    url: str = ""
    method: str = "GET"
    post_data: str = ""

    @property
    def what(self) -> tuple[str, str, str]:
        return self.method, self.url.partition("?")[0], self.post_data[:BODY_LIMIT]


class _OfRequest(msgspec.Struct, rename="camel"):
    request_id: str
    loader_id: str = ""
    frame_id: str = ""
    type: str = "Other"
    request: _RequestInfo = _RequestInfo()
    response: _ResponseInfo | None = None


class _OfSocket(msgspec.Struct, rename="camel"):
    request_id: str


RequestKey = tuple[str, str, str]


class _TrackedRequest(msgspec.Struct):
    """`what` identifies it if it may be a poll. `answered` is the time of the latest data."""

    started: float
    loader: str
    what: RequestKey | None = None
    first_answered: float | None = None
    answered: float | None = None

    def is_awaited(self, now: float) -> bool:
        if self.answered is None or self.first_answered is None:
            return True
        goes_on = now - self.answered < ANSWER_GOES_ON
        return goes_on and now - self.first_answered < BACKGROUND_AFTER


_READ_NAVIGATED = msgspec.json.Decoder(_Navigated).decode
_READ_FRAME = msgspec.json.Decoder(_OfFrame).decode
_READ_SOCKET = msgspec.json.Decoder(_OfSocket).decode
_READ_REQUEST = msgspec.json.Decoder(_OfRequest).decode


class PageActivity:
    """The state of the main frame `frame`, from the events."""

    def __init__(self, frame: str, clock: Callable[[], float]) -> None:
        self.main = FrameInfo(frame)
        self.document = 0
        """The number of documents that the main frame has had."""
        self.dom_ready = True
        """Whether the document was parsed to its end."""
        self.is_loading = False
        self._frame = frame
        self._clock = clock
        self._answered: tuple[str, int | None] = ("", None)
        self._given_up = self._given_up_before = -1
        self._next_document: str | None = None
        self._requested_at = float("-inf")
        self._step_started = float("-inf")
        self._step_began = 0.0
        self._requests: dict[str, _TrackedRequest] = {}
        self._ended: dict[RequestKey, int] = {}
        self._polls: dict[RequestKey, float] = {}
        self._found_poll = False
        self._sockets: dict[str, float] = {}
        """Since when web sockets wait for their server."""
        self._silent: set[str] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._handlers: dict[str, Callable[[msgspec.Raw], None]] = {
            "Page.frameRequestedNavigation": self._navigation_requested,
            "Page.frameStartedNavigating": self._navigation_started,
            "Page.frameStartedLoading": self._loading_started,
            "Page.frameStoppedLoading": self._loading_ended,
            "Page.frameNavigated": self._navigated,
            "Page.domContentEventFired": self._document_ready,
            "Network.requestWillBeSent": self._request_started,
            "Network.responseReceived": self._response_received,
            "Network.dataReceived": self._data_received,
            "Network.loadingFinished": self._request_ended,
            "Network.loadingFailed": self._request_failed,
            "Network.webSocketCreated": self._socket_asked,
            "Network.webSocketFrameSent": self._socket_asked,
            "Network.webSocketHandshakeResponseReceived": self._socket_answered,
            "Network.webSocketFrameReceived": self._socket_answered,
            "Network.webSocketClosed": self._socket_answered,
        }

    def handle_event(self, method: str, params: msgspec.Raw) -> None:
        handler = self._handlers.get(method)
        if handler is not None:
            handler(params)

    @property
    def status(self) -> int | None:
        """The HTTP status of the document, if it has one."""
        loader, status = self._answered
        return status if loader == self.main.loader_id else None

    @property
    def awaits_document(self) -> bool:
        """Whether the answer with the next document is still outstanding.

        Meanwhile Chromium answers no calls that involve scripts of the page.
        """
        return self._next_document is not None

    def awaits(self, loader: str) -> bool:
        """Whether the answer with this document is still outstanding."""
        return self._next_document is not None and self._next_document == loader

    @property
    def is_requested(self) -> bool:
        """Whether another document was requested just now."""
        return self.awaits_document or self._clock() - self._requested_at < REQUESTED_FOR

    @property
    def is_navigating(self) -> bool:
        """Whether a document is loading or was requested."""
        return self.is_requested or (self.is_loading and not self.was_given_up)

    @property
    def was_given_up(self) -> bool:
        """Whether waiting for this document to load was given up."""
        return self._given_up == self.document

    @property
    def was_given_up_before(self) -> bool:
        """The same in an earlier step."""
        return self._given_up_before == self.document

    def give_up(self) -> None:
        """Stop waiting for the document to load, and for its running requests."""
        self._given_up = self.document
        self._requests.clear()

    def begin_step(self) -> None:
        """Start a step: requests from now on may be its consequences."""
        now = self._step_started = self._clock()
        self._step_began = time.time()
        self._given_up_before = self._given_up
        self._ended.clear()
        self._found_poll = False
        since = now - POLL_ENDED_AFTER
        self._polls = {poll: seen for poll, seen in self._polls.items() if seen > since}
        for request in self._requests.values():
            if request.what is not None and now - request.started > BACKGROUND_AFTER:
                self._polls[request.what] = now

    @property
    def step_start(self) -> StepStart:
        """When the step started."""
        return StepStart(self._step_began, min(self._clock() - self._step_started, 1e6))

    @property
    def has_unfinished(self) -> bool:
        """Whether requests of the step are running, also those that are not waited for."""
        requests = self._requests.values()
        running = any(request.started >= self._step_started for request in requests)
        return running or self._found_poll

    def pending_requests(self) -> int:
        """Requests that the page may be waiting for."""
        now, since = self._clock(), self._step_started
        requests = self._requests.values()
        asked = sum(request.started >= since and request.is_awaited(now) for request in requests)
        silent = [socket for socket, at in self._sockets.items() if now - at >= SOCKET_ANSWER]
        for socket in silent:
            del self._sockets[socket]
            self._silent.add(socket)
        return asked + sum(at >= since for at in self._sockets.values())

    async def changed(self, seconds: float) -> bool:
        """Wait for the next change, but not longer than this; returns whether there was one."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            done, _ = await asyncio.wait([waiter], timeout=max(0.0, seconds))
        finally:
            self._waiters.discard(waiter)
        return bool(done)

    def wake(self) -> None:
        """Wake up all callers of `changed`."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def begin_navigation(self) -> None:
        """Note that we requested a navigation: its document is awaited from now on."""
        self._requested_at = self._clock()

    def end_navigation(self) -> None:
        """Note that the requested navigation has started, or will not start."""
        self._requested_at = float("-inf")

    def _navigation_requested(self, params: msgspec.Raw) -> None:
        event = _READ_FRAME(params)
        if event.frame_id == self._frame and event.disposition == "currentTab":
            self._requested_at = self._clock()
            self.wake()

    def _navigation_started(self, params: msgspec.Raw) -> None:
        event = _READ_FRAME(params)
        if event.frame_id == self._frame and event.navigation_type not in _WITHIN_DOCUMENT:
            self._next_document = event.loader_id
            self.wake()

    def _loading_started(self, params: msgspec.Raw) -> None:
        if _READ_FRAME(params).frame_id == self._frame:
            self.is_loading = True
            self.wake()

    def _loading_ended(self, params: msgspec.Raw) -> None:
        if _READ_FRAME(params).frame_id == self._frame:
            self.is_loading = False
            self._next_document = None
            self.end_navigation()
            self.wake()

    def _navigated(self, params: msgspec.Raw) -> None:
        frame = _READ_NAVIGATED(params).frame
        if frame.parent_id is not None:
            return
        self.main = frame
        self.document += 1
        self.dom_ready = False
        self._next_document = None
        self.end_navigation()
        self._polls.clear()
        self._sockets.clear()
        self._silent.clear()
        self._requests = {
            number: request
            for number, request in self._requests.items()
            if request.loader == frame.loader_id
        }
        self.wake()

    def _document_ready(self, _: msgspec.Raw) -> None:
        self.dom_ready = True
        self.wake()

    def _request_started(self, params: msgspec.Raw) -> None:
        event = _READ_REQUEST(params)
        url = event.request.url
        if event.type in _NOT_AWAITED or url.startswith("data:"):
            return
        # A request without a document is one of a worker, or the script of one. Settling waits for
        # a worker to start, and the end of other scripts is not reported here.
        if not event.loader_id and event.type not in _REPEATED:
            return
        what = event.request.what if event.type in _REPEATED else None
        if what is not None and self._is_poll(what):
            self._polls[what] = self._clock()
            return
        if len(self._requests) >= MAX_REQUESTS:
            return
        self._requests[event.request_id] = _TrackedRequest(self._clock(), event.loader_id, what)
        self.wake()

    def _response_received(self, params: msgspec.Raw) -> None:
        event = _READ_REQUEST(params)
        if event.type == "Document" and event.frame_id == self._frame and event.response:
            self._answered = (event.loader_id, event.response.status)
        self._note_answer(event.request_id)

    def _data_received(self, params: msgspec.Raw) -> None:
        self._note_answer(_READ_REQUEST(params).request_id)

    def _note_answer(self, number: str) -> None:
        request = self._requests.get(number)
        if request is not None:
            request.answered = self._clock()
            request.first_answered = request.first_answered or request.answered

    def _request_ended(self, params: msgspec.Raw) -> None:
        request = self._requests.pop(_READ_REQUEST(params).request_id, None)
        if request is None:
            return
        if request.what is not None and len(self._ended) < MAX_REQUESTS:
            self._ended.setdefault(request.what, 0)
        self.wake()

    def _is_poll(self, what: RequestKey) -> bool:
        """Whether a request is a poll; notes that it starts after one like it has ended."""
        if what in self._polls:
            return True
        if what not in self._ended:
            return False
        self._ended[what] += 1
        self._found_poll |= self._ended[what] > MAX_REPEATS
        return self._ended[what] > MAX_REPEATS

    def _socket_asked(self, params: msgspec.Raw) -> None:
        socket = _READ_SOCKET(params).request_id
        if socket not in self._silent and len(self._sockets) < MAX_REQUESTS:
            self._sockets.setdefault(socket, self._clock())
            self.wake()

    def _socket_answered(self, params: msgspec.Raw) -> None:
        socket = _READ_SOCKET(params).request_id
        self._silent.discard(socket)
        if self._sockets.pop(socket, None) is not None:
            self.wake()

    def _request_failed(self, params: msgspec.Raw) -> None:
        if _READ_REQUEST(params).request_id == self._next_document:
            # The server sent no document: a download, or an answer without content.
            self._next_document = None
            self.wake()
        self._request_ended(params)
