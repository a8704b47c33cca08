"""The worker's end of the channel: it runs attempts, and its program reaches the driver through it.

A worker ends when its driver says so and when the connection is lost: then no driver would get its
outcomes. It has no files of its own. What must outlive an attempt, such as a screenshot, goes to a
service of the driver, and is on the driver's disk when the call returns.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from itertools import count

import msgspec

from rollgym.cluster.channel import Channel
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
    encode_outcome,
    task_of,
)
from rollgym.engine import EncodedAttempt, Worker, WorkItem
from rollgym.engine.outcomes import outcome_of_attempt
from rollgym.engine.versions import encode_turns, has_version
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    Outcome,
    Task,
    encode_unread,
)
from rollgym.store import StorageError

PING_INTERVAL = 5.0
CONNECT_TIMEOUT = 15.0
SETUP_TIMEOUT = 30.0
LOG_TOPIC = "log"
_LOGGER = logging.getLogger(__name__)


class LostDriverError(Exception):
    """The driver cannot be reached, or did not answer."""


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    """A record of a worker's log, as its driver logs it again."""

    logger: str
    level: int
    line: str


class Link:
    """The connection of a worker to its driver."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._setup: asyncio.Future[Setup] = self._loop.create_future()
        self._over = asyncio.Event()
        self._worker: Worker | None = None
        self._attempts: dict[int, asyncio.Task[None]] = {}
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = count(1)
        self._pinging: asyncio.TimerHandle | None = None
        self._early: list[tuple[str, bytes]] = []
        self._take_note: Callable[[str, bytes], None] = lambda *note: self._early.append(note)
        self._prepared: Callable[[Task, Attempt], bytes] = lambda _task, _attempt: b""
        self._channel = Channel(self._receive, self._lose)
        self.lost: str | None = None
        """Why the connection ended; None while it is open."""

    # For the program of the worker.

    async def call(self, service: str, body: bytes) -> bytes:
        """Call a service of the driver. Raises StorageError where its disk failed."""
        if self.lost is not None:
            raise asyncio.CancelledError
        number = next(self._numbers)
        answer: asyncio.Future[bytes] = self._loop.create_future()
        self._calls[number] = answer
        self._channel.send(Call(number, service, body))
        try:
            return await answer
        finally:
            self._calls.pop(number, None)

    def prepare(self, prepared: Callable[[Task, Attempt], bytes]) -> None:
        """Set what makes of a record, in this process, what the driver's observers need of it."""
        self._prepared = prepared

    def note(self, topic: str, body: bytes) -> None:
        """Tell the driver something that needs no answer; it may be dropped. From any thread."""
        try:
            if asyncio.get_running_loop() is self._loop:
                self._channel.note(topic, body)
                return
        except RuntimeError:  # this thread has no event loop
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._channel.note, topic, body)

    def on_note(self, take: Callable[[str, bytes], None]) -> None:
        """Give the notes of the driver to `take` from now on, and those that came before."""
        self._take_note = take
        for topic, body in self._early:
            take(topic, body)
        self._early.clear()

    # For the process of the worker.

    async def connect(self, connect: Callable[[Channel], object], hello: Hello) -> Setup:
        """Introduce the worker; `connect` is a coroutine function. Raises LostDriverError."""
        deadline = self._loop.time() + CONNECT_TIMEOUT
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    await connect(self._channel)  # type: ignore[misc]
                break
            except OSError as error:
                if self._loop.time() + 1.0 > deadline:
                    raise LostDriverError(f"the driver cannot be reached: {error}") from error
                await asyncio.sleep(0.5)
        self._channel.trust()
        self._channel.send(hello)
        try:
            async with asyncio.timeout(SETUP_TIMEOUT):
                return await self._setup
        except TimeoutError as error:
            self._channel.abort("it did not answer")
            raise LostDriverError("the driver did not say what to run") from error

    def refuse(self, error: str) -> None:
        """Say why this worker cannot start."""
        self._channel.send(Refused(error))

    async def run(self, worker: Worker) -> None:
        """Run attempts until the driver says that the collection is over, or is lost."""
        self._worker = worker
        self._channel.send(Ready())
        self._ping()
        await self._over.wait()
        for task in self._attempts.values():
            task.cancel()

    @property
    def is_running(self) -> bool:
        """Whether it runs attempts, and ends by itself when the collection is over."""
        return self._worker is not None

    async def until_over(self) -> None:
        """Return when the driver says that the collection is over, or is lost."""
        await self._over.wait()

    def close(self) -> None:
        """Send what waits, and close the connection."""
        if self._pinging is not None:
            self._pinging.cancel()
        self._channel.close()

    # Messages.

    def _receive(self, _: Channel, message: Message) -> None:
        match message:
            case Work():
                if self._worker is None:
                    raise ProtocolError("an attempt came before the worker was ready")
                task = self._loop.create_task(self._attempt(self._worker, message))
                self._attempts[message.number] = task
            case Cancel(number) if number in self._attempts:
                self._attempts[number].cancel()
            case Cancel():
                pass  # it has ended meanwhile
            case CallResult():
                self._take_answer(message)
            case Setup() if not self._setup.done():
                self._setup.set_result(message)
            case Note(topic, body):
                self._take_note(topic, body)
            case Bye():
                self._over.set()
            case _:
                raise ProtocolError(f"{type(message).__name__} is not for a worker")

    def _take_answer(self, answer: CallResult) -> None:
        waiting = self._calls.get(answer.number)
        if waiting is None or waiting.done():
            return
        if answer.disk_error:
            waiting.set_exception(StorageError(answer.disk_error))
        else:
            waiting.set_result(answer.body)

    def _lose(self, _: Channel, reason: str) -> None:
        self.lost = reason
        if not self._setup.done():
            self._setup.set_exception(LostDriverError(reason))
        for waiting in self._calls.values():
            waiting.cancel()
        self._over.set()

    async def _attempt(self, worker: Worker, work: Work) -> None:
        item = WorkItem(task_of(work), work.repeat, work.seed)
        # Not the loop's clock, which uvloop reads once in a turn, and in milliseconds.
        began = time.monotonic()
        deadline = self._loop.time() + work.seconds
        try:
            outcome = await outcome_of_attempt(worker, item, work.attempt, deadline)
            took = time.monotonic() - began
            try:
                self._channel.send(self._ended(work, item, outcome, took))
            except (TypeError, ValueError, OverflowError) as error:
                what = f"the outcome cannot be written as JSON: {error}"
                unusable = Failed(Failure.make(FailureKind.INTERNAL, what))
                self._channel.send(Ended(work.number, encode_outcome(unusable)))
        except StorageError as error:
            self._channel.send(Ended(work.number, disk_error=str(error)))
        except asyncio.CancelledError:
            self._channel.send(Ended(work.number))
        finally:
            self._attempts.pop(work.number, None)

    def _ended(
        self, work: Work, item: WorkItem, outcome: Outcome | EncodedAttempt, took: float
    ) -> Ended:
        """What the driver gets of an outcome; of the usual one, the record that it will write."""
        if isinstance(outcome, EncodedAttempt):
            raise TypeError("its worker has encoded it, which is done here")
        turns = outcome.turns
        if not isinstance(outcome, Completed) or has_version(turns):
            return Ended(work.number, encode_outcome(outcome), took)
        attempt = Attempt(
            task=work.task,
            repeat=work.repeat,
            repeats=work.repeats,
            attempt=work.attempt,
            final=True,
            seed=work.seed,
            started=work.started,
            seconds=work.waited + took,
            outcome=msgspec.structs.replace(outcome, turns=()) if turns else outcome,
        )
        line = encode_unread(attempt)
        try:
            prepared = self._prepared(item.task, attempt)
        except Exception:
            _LOGGER.exception("the driver gets the record of %s alone", attempt.key)
            prepared = b""
        encoded_turns = encode_turns(turns) if turns else b""
        return Ended(work.number, b"", took, line, encoded_turns, prepared)

    def _ping(self) -> None:
        self._channel.send(Ping())
        self._pinging = self._loop.call_later(PING_INTERVAL, self._ping)


class LinkHandler(logging.Handler):
    """Sends the records of a worker's log to its driver."""

    def __init__(self, link: Link, formatter: logging.Formatter) -> None:
        super().__init__()
        self._link = link
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        line = LogLine(record.name, record.levelno, self.format(record))
        self._link.note(LOG_TOPIC, msgspec.msgpack.encode(line))
