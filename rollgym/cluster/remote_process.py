"""One worker process, as its driver sees it: its attempts, and its life from start to end.

*Silence.* The worker's event loop sends a message every few seconds. One that has sent nothing for
`silence` seconds is blocked or cut off, and is killed. The driver counts its own turns and no time,
so a driver that was suspended does not kill workers that waited for it.

*The end.* A process has ended when it has exited and its connection is empty: outcomes that it had
sent still count. Then its remaining attempts fail.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from rollgym.cluster.channel import Channel
from rollgym.cluster.launchers import Launched
from rollgym.cluster.link import PING_INTERVAL
from rollgym.cluster.messages import (
    Bye,
    Call,
    CallResult,
    Cancel,
    Ended,
    Hello,
    Message,
    Note,
    Ping,
    ProtocolError,
    Ready,
    Refused,
    Setup,
    Work,
    decode_outcome,
)
from rollgym.engine import EncodedAttempt, WorkItem
from rollgym.engine.versions import begun_after, begun_late
from rollgym.records import Outcome, decode_attempt
from rollgym.store import StorageError, StoreError

EMPTY_TIMEOUT = 2.0
EXIT_TIMEOUT = 1.0

Service = Callable[[bytes], Awaitable[bytes]]
NoteHandler = Callable[[str, bytes], None]
_LOGGER = logging.getLogger(__name__)


class EndOfProcess(NamedTuple):
    """How a worker process ended. `refused` is what it said instead of starting."""

    reason: str
    was_ready: bool = False
    by_itself: bool = False
    refused: str | None = None


class LostError(Exception):
    """The process of an attempt was lost."""

    def __init__(self, end: EndOfProcess) -> None:
        super().__init__(end.reason)
        self.end = end


class RemoteProcess:
    """A place for a worker process; `live` is called for each process that takes it.

    `state_changed` is called when it is ready, and when attempts have ended.
    """

    def __init__(
        self,
        number: int,
        setup: Setup,
        services: Mapping[str, Service],
        take_note: NoteHandler,
        state_changed: Callable[[], None],
    ) -> None:
        self.number = number
        self.name = f"worker {number}"
        self.is_ready = False
        """Whether it can get attempts."""
        self.reserved = False
        self.finished = 0
        self._setup = setup
        self._services = services
        self._take_note = take_note
        self._state_changed = state_changed
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Ended]] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._channel: Channel | None = None
        self._heard = True
        self._hello: Hello | None = None
        self._refused: str | None = None
        self._reset()

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    @property
    def described(self) -> str:
        """Its name, and its process and machine where they are known."""
        if self._hello is None:
            return self.name
        return f"{self.name} (process {self._hello.process} on {self._hello.node})"

    # Attempts.

    async def run(
        self, item: WorkItem, attempt: int, seconds: float, started: float, waited: float
    ) -> Outcome | EncodedAttempt:
        """Run an attempt that `waited` since it was `started`.

        A cancellation is passed on, and the outcome awaited that the worker still has. Raises
        LostError where the process is lost.
        """
        number, channel = next(self._numbers), self._channel
        if channel is None or not self.is_ready:
            raise LostError(EndOfProcess("it has ended"))
        task, sent = item.task, time.monotonic()
        ended: asyncio.Future[Ended] = self._loop.create_future()
        self._waiting[number] = ended
        channel.send(
            Work(
                number,
                task.index,
                task.repeats,
                task.row.raw,
                item.repeat,
                item.seed,
                attempt,
                seconds,
                started,
                waited,
            )
        )
        try:
            try:
                answer = await ended
            except asyncio.CancelledError:
                if ended.cancelled():
                    self._waiting[number] = ended = self._loop.create_future()
                    channel.send(Cancel(number))
                    answer = await ended
                else:
                    answer = ended.result()
        finally:
            self._waiting.pop(number, None)
        self.finished += 1
        if answer.disk_error:
            raise StorageError(answer.disk_error)
        late = time.monotonic() - sent - answer.seconds
        if answer.record:
            record = decode_attempt(answer.record)
            if (record.task, record.repeat, record.attempt) != (task.index, item.repeat, attempt):
                raise ValueError(f"{self.described} answered with the record of {record.key}")
            return EncodedAttempt(
                record, answer.record, answer.turns, late, waited, answer.prepared
            )
        if not answer.outcome:
            raise asyncio.CancelledError
        return begun_after(begun_late(decode_outcome(answer.outcome), late), waited)

    # The process.

    def join(self, channel: Channel, hello: Hello) -> None:
        """Take the connection of the process, and tell it what to run."""
        self._channel, self._hello = channel, hello
        channel.send(self._setup)

    async def live(self, launched: Launched, within: float, silence: float) -> EndOfProcess:
        """Watch a process until it has ended. It must be ready `within` seconds."""
        exited = asyncio.ensure_future(launched.ended())
        try:
            reason = await self._start(launched, exited, within)
            was_ready = reason is None
            if reason is None:
                self._state_changed()
                reason = await self._watch(exited, silence)
            self._retire()
            end = await self._conclude(launched, exited, reason, was_ready=was_ready)
        finally:
            self._retire()
            exited.cancel()
            if self._channel is not None:
                self._channel.close()
            await launched.kill()
        for attempt in self._waiting.values():
            if not attempt.done():
                attempt.set_exception(LostError(end))
        self._reset()
        return end

    def note(self, topic: str, body: bytes) -> None:
        """Tell the process something that needs no answer."""
        if self._channel is not None:
            self._channel.send(Note(topic, body))

    def end(self) -> None:
        """Tell the process that the collection is over."""
        self._retire()
        if self._channel is not None:
            self._channel.send(Bye())

    def receive(self, channel: Channel, message: Message) -> None:
        """Handle a message of the process. Raises ProtocolError."""
        if channel is not self._channel:
            return  # of an earlier process in this place
        self._heard = True
        match message:
            case Ended():
                self._take_outcome(message)
            case Call():
                task = asyncio.ensure_future(self._serve(channel, message))
                self._serving.add(task)
                task.add_done_callback(self._serving.discard)
            case Note(topic, body):
                self._take_note(topic, body)
            case Ready() if not self._ready.done():
                self._ready.set_result(None)
                self.is_ready = not self._over
            case Refused(error):
                self._refused = error
            case Ping():
                pass
            case _:
                raise ProtocolError(f"{type(message).__name__} is not for a driver")

    def _take_outcome(self, ended: Ended) -> None:
        waiting = self._waiting.get(ended.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(ended)
            if self.reserved:
                self._state_changed()

    def lose(self, channel: Channel, reason: str) -> None:
        """The connection has ended."""
        if channel is self._channel and not self._lost.done():
            self._lost.set_result(reason)

    def _retire(self) -> None:
        self._over, self.is_ready = True, False

    def _reset(self) -> None:
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[str] = self._loop.create_future()
        self._refused = None
        self._over = False
        self._channel, self._hello = None, None

    async def _start(
        self, launched: Launched, exited: asyncio.Future[str], within: float
    ) -> str | None:
        """Wait until it is ready; returns why it will not be."""
        loop = self._loop
        deadline = loop.time() + within
        signs: set[asyncio.Future[Any]] = {self._ready, self._lost, exited}
        while not (self._ready.done() or self._lost.done() or exited.done()):
            if self._hello is None and launched.can_wait:
                deadline = loop.time() + within
            elif loop.time() > deadline:
                return f"it was not ready within {within:g} s"
            await asyncio.wait(signs, timeout=PING_INTERVAL, return_when=asyncio.FIRST_COMPLETED)
        return None if self._ready.done() else "it ended before it was ready"

    async def _watch(self, exited: asyncio.Future[str], silence: float) -> str:
        missed = 0
        interval = min(PING_INTERVAL, silence / 2)
        while missed * interval < silence:
            self._heard = False
            await asyncio.wait(
                {self._lost, exited}, timeout=interval, return_when=asyncio.FIRST_COMPLETED
            )
            if self._lost.done() or exited.done():
                return ""
            missed = 0 if self._heard else missed + 1
        return f"did not respond for {silence:g} s and was ended"

    async def _conclude(
        self, launched: Launched, exited: asyncio.Future[str], reason: str, *, was_ready: bool
    ) -> EndOfProcess:
        """Receive what the process had sent, and find out how it ended."""
        if reason.startswith("did not respond"):
            return EndOfProcess(f"{self.described} {reason}", was_ready, by_itself=True)
        if exited.done() and self._channel is not None:
            await asyncio.wait({self._lost}, timeout=EMPTY_TIMEOUT)
        await asyncio.wait({exited}, timeout=EXIT_TIMEOUT)
        how = exited.result() if exited.done() else self._lost_reason()
        by_itself = exited.done() and launched.is_its_own_end(how)
        said = f"{self.described} {how}" if was_ready else f"{self.described} {reason}: it {how}"
        return EndOfProcess(said, was_ready, by_itself, self._refused)

    def _lost_reason(self) -> str:
        return f"was lost: {self._lost.result()}" if self._lost.done() else "was lost"

    async def _serve(self, channel: Channel, call: Call) -> None:
        service = self._services.get(call.service)
        if service is None:
            channel.abort(f"it called the unknown service {call.service}")
            return
        try:
            channel.send(CallResult(call.number, await service(call.body)))
        except StoreError as error:
            channel.send(CallResult(call.number, b"", str(error)))
        except Exception:
            _LOGGER.exception("the service %s failed for %s", call.service, self.described)
            channel.abort(f"the service {call.service} failed for it")
