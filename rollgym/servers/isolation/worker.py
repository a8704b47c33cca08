"""One isolated worker: a process in a session of its own that answers one call at a time.

A worker that did not answer, for whatever reason, is of no further use: the caller kills it and
starts another.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from rollgym.servers.isolation import child
from rollgym.servers.isolation.child import Answer, Call, Raised, Setup
from rollgym.servers.isolation.conversation import Conversation
from rollgym.servers.isolation.errors import (
    CallFailedError,
    CallTimeoutError,
    CpuTimeExceededError,
    IsolationError,
    WorkerDiedError,
    WorkerStartError,
)

_PROGRAM = Path(child.__file__).resolve()
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


class Blueprint(msgspec.Struct, frozen=True):
    """What all workers of a pool have in common."""

    function: str
    start_timeout: float
    memory_bytes: int | None
    environment: Mapping[str, str]


class Worker:
    """A process that is starting, running or ending. Its owner kills it and waits for `ended`."""

    def __init__(self, blueprint: Blueprint) -> None:
        self.calls = 0
        self._blueprint = blueprint
        self._function = blueprint.function
        self._conversation = Conversation()
        # A task of its own: a caller that is cancelled must not leave half a process behind.
        self._spawning = asyncio.ensure_future(self._spawn())

    @property
    def alive(self) -> bool:
        return self._conversation.exit_status is None and not self.ended.done()

    @property
    def process_id(self) -> int:
        return self._conversation.process_id

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done when the process is gone, with everything in its group."""
        return self._conversation.ended

    def kill(self) -> None:
        self._conversation.kill()

    async def ready(self) -> None:
        """Wait until the function is imported. Raises WorkerStartError."""
        patience = self._blueprint.start_timeout
        try:
            async with asyncio.timeout(patience):
                await asyncio.shield(self._spawning)
                answer = await self._answer(patience)
        except TimeoutError:
            raise WorkerStartError(
                f"a worker has not imported {self._function} within "
                f"{patience:g} s; if the machine is busy, raise start_timeout{self._last_words()}"
            ) from None
        if isinstance(answer, Raised):
            raise WorkerStartError(
                f"worker {self.process_id} cannot import {self._function}: {answer.error_type}: "
                f"{answer.error_message}\n{answer.traceback}".rstrip()
            )
        if answer is None:
            raise WorkerStartError(self._death(f"imported {self._function}"))

    async def ask(self, call: Call, frame: bytes) -> object:
        """Send a call, whose bytes `frame` is, and wait for what the function returns.

        Raises CallFailedError, after which the worker is as good as before, and any other
        IsolationError, after which it has to be killed.
        """
        self.calls += 1
        self._conversation.send(frame)
        try:
            answer = await self._answer(call.timeout)
        except TimeoutError:
            raise CallTimeoutError(
                f"{self._function} gave no answer within {call.timeout:g} s and was killed"
            ) from None
        match answer:
            case None:
                raise self._end(call)
            case Raised(error_type, error_message, traceback):
                raise CallFailedError(self._function, error_type, error_message, traceback)
            case _:
                return answer.value

    async def _spawn(self) -> None:
        loop = asyncio.get_running_loop()
        setup = Setup(self._function, sys.path, os.getpid(), self._blueprint.memory_bytes)
        try:
            await loop.subprocess_exec(
                lambda: self._conversation,
                sys.executable,
                "-P",  # keeps the folder of the program out of the module search path
                str(_PROGRAM),
                msgspec.json.encode(setup).decode(),
                env=self._blueprint.environment,
                start_new_session=True,
            )
        except BaseException as error:
            self._conversation.end()
            if not isinstance(error, OSError):
                raise
            raise WorkerStartError(
                f"no process could be started for {self._function}: {type(error).__name__}: {error}"
            ) from error

    async def _answer(self, patience: float) -> Answer | None:
        message = await self._conversation.receive(patience)
        try:
            return None if message is None else _answers.decode(message)
        except msgspec.MsgspecError as error:
            raise IsolationError(
                f"worker {self.process_id} of {self._function} sent an unreadable answer: {error}"
            ) from error

    def _end(self, call: Call) -> IsolationError:
        status = self._conversation.exit_status
        if status == -signal.SIGPROF and call.cpu_timeout is not None:
            return CpuTimeExceededError(
                f"{self._function} used up its {call.cpu_timeout:g} s of processor time and "
                "was killed"
            )
        if status == -signal.SIGALRM:
            return CallTimeoutError(
                f"{self._function} gave no answer within {call.timeout:g} s and ended itself"
            )
        return WorkerDiedError(self._death(f"ran {self._function}"))

    def _death(self, doing: str) -> str:
        how = describe_exit(self._conversation.exit_status)
        return f"worker {self.process_id} {how} while it {doing}{self._last_words()}"

    def _last_words(self) -> str:
        words = self._conversation.last_words
        return f"; its last output:\n{words}" if words else ""


def describe_exit(status: int | None) -> str:
    """How a process ended, in words."""
    if status is None:
        return "closed its pipes"
    if status >= 0:
        return f"ended by itself with exit status {status}"
    if -status == signal.SIGKILL:
        return "was killed from outside (SIGKILL), most often by the system for want of memory"
    try:
        return f"was ended by {signal.Signals(-status).name} ({signal.strsignal(-status)})"
    except ValueError:
        return f"was ended by signal {-status}"
