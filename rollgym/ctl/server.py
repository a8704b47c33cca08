"""The socket of a running collection.

Each connection is one request. What a caller sends is bounded in size and time, and callers wait
for nothing but the turn of the collection's loop and the sync of the control log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from rollgym.ctl.commands import LARGEST_MESSAGE, Command, ControlAnswer, answer, encode
from rollgym.ctl.sockets import BoundSocket, caller_of
from rollgym.engine import Control
from rollgym.records.decoding import JsonDecoder
from rollgym.store import RunStore, StorageError

REQUEST_TIMEOUT = 10.0
ANSWER_TIMEOUT = 25.0
CLOSE_TIMEOUT = 2.0
_COMMAND: JsonDecoder[Command] = JsonDecoder(Command)
_log = logging.getLogger(__name__)


@asynccontextmanager
async def control_socket(
    store: RunStore, control: Control, report: Callable[[str], object]
) -> AsyncIterator[None]:
    """Let `rollgym ctl` reach this collection during the block.

    Where no socket can be made, `report` gets the reason, and the collection goes on without.
    """
    try:
        bound = BoundSocket(store.control_log.path)
    except OSError as error:
        report(f"`rollgym ctl` cannot reach this collection: no socket can be made ({error})")
        yield
        return
    with bound:
        requests = _Requests(control)
        server = await asyncio.start_unix_server(
            requests.handle, sock=bound.socket, limit=LARGEST_MESSAGE
        )
        try:
            yield
        finally:
            server.close()
            await requests.close()


class _Requests:
    """The connections of one socket."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._open: set[asyncio.Task[None]] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
        try:
            writer.write(encode(await self._answer(reader, writer)))
            async with asyncio.timeout(REQUEST_TIMEOUT):
                await writer.drain()
        except (OSError, TimeoutError):
            pass  # the caller has gone
        finally:
            if task is not None:
                self._open.discard(task)
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> ControlAnswer:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                line = await reader.readline()
            # Not before it was read: a connection that is closed unread may lose its answer.
            by = caller_of(writer.get_extra_info("socket"))
            command = _COMMAND.decode(line)
            async with asyncio.timeout(ANSWER_TIMEOUT):
                return await answer(command, self._control, by)
        except (PermissionError, StorageError) as error:
            return ControlAnswer(self._control.state, problem=str(error))
        except TimeoutError:
            problem = "the collection could not do it in time; ask for its status"
            return ControlAnswer(self._control.state, problem=problem)
        except (msgspec.DecodeError, ValueError) as error:
            problem = f"this version of rollgym does not know the request ({error})"
            return ControlAnswer(self._control.state, problem=problem)
        except Exception as error:  # noqa: BLE001 - no request ends a collection
            _log.exception("a request of rollgym ctl failed")
            return ControlAnswer(self._control.state, problem=f"it failed: {error!r}")

    async def close(self) -> None:
        """Let open requests end, for a short time."""
        for cancelled in (False, True):
            for task in list(self._open):
                if cancelled:
                    task.cancel()
            if self._open:
                await asyncio.wait(list(self._open), timeout=CLOSE_TIMEOUT)
