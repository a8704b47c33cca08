"""The worker of a collection that runs in many processes: it gives each attempt to one of them.

The engine calls it like any worker, so everything that makes a collection stays in the driver: the
journal, retries, limits, files and progress. Only attempts run elsewhere. A finished rollout counts
when the driver has written it, so a worker process has nothing to lose but running attempts.

*Handing out.* An attempt goes to the process with the fewest attempts, so one that is slow gets
fewer of them (see `dispatch`).

*Lost processes.* The attempts of a process that was lost fail as `worker`, which is retried. The
process is replaced, unless its replacements end without having finished anything.

*Rollouts that kill their process.* Anything may have killed a process: people, schedulers, lack of
memory, one of its rollouts. A rollout that was in two lost processes runs alone from then on, so it
harms no other. If its process then ends by itself (a fatal signal, an exit, a blocked event loop),
the rollout did it, and fails as `crash`. Otherwise the attempts of the retry rule end it.
"""

import asyncio
import hmac
import logging
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

import rollgym
from rollgym.cluster.channel import Channel
from rollgym.cluster.dispatch import Dispatch
from rollgym.cluster.launchers import Launcher
from rollgym.cluster.link import LOG_TOPIC, LogLine
from rollgym.cluster.messages import Hello, Message, ProtocolError, Setup
from rollgym.cluster.process import STOP_BOUND, Ticket
from rollgym.cluster.remote_process import (
    EndOfProcess,
    LostError,
    NoteHandler,
    RemoteProcess,
    Service,
)
from rollgym.engine import Backoff, EncodedAttempt, WorkItem
from rollgym.records import Failed, Failure, FailureKind, Outcome, RolloutKey, WorkerLostError
from rollgym.servers.launch.logs import current_level, relay_record
from rollgym.servers.launch.records import StartError

START_TIMEOUT = 120.0
SILENCE = 60.0
HELLO_TIMEOUT = 10.0
MOST_FRUITLESS = 3
"""How many processes in a row may end without having finished an attempt."""
ALONE_AFTER = 2
"""The number of lost processes after which a rollout runs alone."""
_PAUSES = Backoff(0.25, factor=4.0, maximum=8.0, jitter=0.0)

_LOGGER = logging.getLogger(__name__)
_LOG_LINE = msgspec.msgpack.Decoder(LogLine)


class WorkerProgram(msgspec.Struct, frozen=True):
    """What worker processes run: a function `module:name`, called with `options` and its link.

    `options` gets the number of the process, from 0. `services` and `notes` are how the program
    reaches the driver.
    """

    program: str
    options: Callable[[int], bytes]
    services: Mapping[str, Service] = {}
    notes: NoteHandler = lambda _topic, _body: None


class WorkerProcesses:
    """Runs attempts in `number` processes. Use it as a context manager, and as a worker in it.

    It can be used when the first process is ready. `host` is the address of this machine for those
    of other machines; without it, the processes run on this machine. `give_up` is called with the
    reason when no process is left.
    """

    def __init__(
        self,
        program: WorkerProgram,
        launcher: Launcher,
        number: int,
        give_up: Callable[[str], None],
        *,
        host: str | None = None,
        start_timeout: float = START_TIMEOUT,
        silence: float = SILENCE,
    ) -> None:
        self._program = program
        self._launcher = launcher
        self._number = number
        self._give_up = give_up
        self._host = host
        self._start_timeout = start_timeout
        self._silence = silence
        self._token = secrets.token_hex(32)
        self._launches = count(1)
        self._expected: dict[int, RemoteProcess] = {}
        self._dispatch = Dispatch(number)
        self._keeping: dict[RemoteProcess, asyncio.Task[None]] = {}
        self._losses: dict[RolloutKey, int] = {}
        self._closing = False
        self._told: list[tuple[str, bytes]] = []
        self.address: str | tuple[str, int] = ""
        self._opened = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Raises StartError where a process refuses to start before one is ready."""
        try:
            await self._listen()
            for number in range(self._number):
                await self._add(number)
            await self._first_ready()
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    async def __call__(
        self, item: WorkItem, attempt: int, deadline: float
    ) -> Outcome | EncodedAttempt:
        alone = bool(self._losses) and self._losses.get(item.key, 0) >= ALONE_AFTER
        clock = asyncio.get_running_loop().time
        called, started = clock(), time.time()
        process = await self._dispatch.acquire(alone=alone)
        waited = time.monotonic() - called  # the same clock, read now
        try:
            outcome = await process.run(item, attempt, deadline - clock(), started, waited)
        except LostError as lost:
            self._losses[item.key] = self._losses.get(item.key, 0) + 1
            if alone and lost.end.by_itself:
                detail = f"{lost}; the rollout ran alone in it"
                return Failed(Failure.make(FailureKind.CRASH, detail))
            raise WorkerLostError(str(lost)) from None
        finally:
            self._dispatch.release(process, alone=alone)
        if self._losses:
            self._losses.pop(item.key, None)
        return outcome

    @property
    def ready(self) -> int:
        """The number of processes that can get attempts."""
        return self._dispatch.ready

    def tell(self, topic: str, body: bytes) -> None:
        """Send a note to every process, also to those that start later."""
        self._told.append((topic, body))
        for process in self._dispatch.processes:
            process.note(topic, body)

    # Starting and replacing processes.

    async def _add(self, number: int) -> None:
        setup = Setup(
            self._program.program,
            self._program.options(number),
            current_level(),
            [os.getcwd(), *filter(None, sys.path)],  # noqa: PTH109 - a text for another process
        )
        process = RemoteProcess(
            number, setup, self._program.services, self._take_note, self._dispatch.change
        )
        self._dispatch.processes.append(process)
        self._keeping[process] = asyncio.ensure_future(self._keep(process))

    async def _keep(self, process: RemoteProcess) -> None:
        """Run one process after another in this place."""
        fruitless = 0
        while True:
            before = process.finished
            end = await self._live(process)
            if self._closing:
                return
            fruitless = 1 if process.finished > before else fruitless + 1
            self._dispatch.change()
            if end.refused is not None and not any(
                each.is_ready for each in self._dispatch.processes
            ):
                raise StartError(f"{process.name} did not start: {end.refused}")
            if fruitless > MOST_FRUITLESS:
                _LOGGER.warning(
                    "%s. %s is not replaced again: %d processes in a row ended without having "
                    "finished an attempt",
                    end.refused or end.reason,
                    process.name,
                    fruitless,
                )
                return
            pause = _PAUSES.delay(fruitless, 0)
            _LOGGER.warning("%s; it is replaced in %g s", end.refused or end.reason, pause)
            await asyncio.sleep(pause)

    async def _live(self, process: RemoteProcess) -> EndOfProcess:
        launch = next(self._launches)
        self._expected[launch] = process
        ticket = Ticket(self.address, self._token, launch, _this_node())
        try:
            launched = await self._launcher.start(process.name, ticket)
            return await process.live(launched, self._start_timeout, self._silence)
        except StartError as error:
            return EndOfProcess(str(error), refused=str(error))
        finally:
            self._expected.pop(launch, None)

    async def _first_ready(self) -> None:
        watching = asyncio.ensure_future(self._watch_places())
        try:
            while not self.ready:
                changed = asyncio.ensure_future(self._dispatch.change_of_state())
                await asyncio.wait({changed, watching}, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if watching.done():
                    watching.result()
                    raise StartError("no worker process could be started")
        finally:
            watching.cancel()
        keeping = asyncio.ensure_future(self._tell_when_none_is_left())
        self._opened.callback(keeping.cancel)

    async def _watch_places(self) -> None:
        """Return when no place has a process any more. Raises the StartError of one."""
        done, _ = await asyncio.wait(self._keeping.values(), return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()

    async def _tell_when_none_is_left(self) -> None:
        reason = "every worker process was lost and could not be replaced"
        try:
            await self._watch_places()
        except StartError as error:
            reason = str(error)
        if not self._closing:
            self._give_up(f"{reason}. What to do: find out why the workers end")

    # Connections.

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if self._host is None:
            folder = tempfile.TemporaryDirectory(prefix="rollgym-")
            self._opened.callback(folder.cleanup)
            self.address = str(Path(folder.name) / "driver")
            server = await loop.create_unix_server(self._accept, self.address)
        else:
            server = await loop.create_server(self._accept, self._host, 0)
            self.address = (self._host, server.sockets[0].getsockname()[1])
        self._opened.callback(server.close)

    def _accept(self) -> Channel:
        def welcome(channel: Channel, message: Message) -> None:
            process = self._welcome(channel, message)
            channel.receive, channel.lost = process.receive, process.lose
            timer.cancel()

        def lose(_channel: Channel, _reason: str) -> None:
            timer.cancel()

        channel = Channel(welcome, lose)
        timer = asyncio.get_running_loop().call_later(
            HELLO_TIMEOUT, channel.abort, "it did not introduce itself"
        )
        return channel

    def _welcome(self, channel: Channel, hello: Message) -> RemoteProcess:
        """The process that a connection belongs to. Raises ProtocolError if it is unknown."""
        if not isinstance(hello, Hello) or not hmac.compare_digest(hello.token, self._token):
            raise ProtocolError("it does not belong to this run")
        process = self._expected.pop(hello.launch, None)
        if process is None or self._closing:
            raise ProtocolError("it is not expected")
        channel.trust()
        if hello.version != rollgym.__version__:
            why = f"it has rollgym {hello.version}, and the driver {rollgym.__version__}"
            _LOGGER.warning("%s on %s: %s", process.name, hello.node, why)
            raise ProtocolError(why)
        process.join(channel, hello)
        for topic, body in self._told:
            process.note(topic, body)
        return process

    def _take_note(self, topic: str, body: bytes) -> None:
        if topic == LOG_TOPIC:
            line = _LOG_LINE.decode(body)
            relay_record(line.logger, line.level, line.line)
        else:
            self._program.notes(topic, body)

    # The end.

    async def _close(self) -> None:
        """Let all processes end, and kill those that do not end in time."""
        self._closing = True
        self._dispatch.close()
        for process in self._dispatch.processes:
            process.end()
        tasks = set(self._keeping.values())
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_BOUND)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_BOUND)
            for task in tasks:
                if task.done() and not task.cancelled():
                    task.exception()
        await self._opened.aclose()


def _this_node() -> str:
    return os.uname().nodename
