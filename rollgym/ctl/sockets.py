"""The sockets of running collections: where they are, who may use them, asking and answering.

*Place.* `control.sock` in the run directory, named as the control log. The path of a Unix socket
may have about a hundred bytes, and some file systems have no sockets. Where it cannot be made
there, it is made in a folder of its own among the temporary files, and `control.sock` is a link to
it.

*Killed processes* leave their sockets. Who binds one holds the lock of the journal, so a socket
that is there already belongs to no process and is replaced. At one that is left nothing answers.

*Users.* Only the user who collects may open the socket (mode 0600, set before anybody can connect).
Where the operating system tells who connects, it is checked again.

*Requests.* Each connection is one request. What a caller sends is bounded in size and time, and
callers wait for nothing but the turn of the collection's loop and the sync of the control log.
"""

import asyncio
import contextlib
import logging
import os
import pwd
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from rollgym.closing import Closable
from rollgym.ctl.commands import LARGEST_MESSAGE, Command, ControlAnswer, answer, encode
from rollgym.engine import Control
from rollgym.records.decoding import JsonDecoder
from rollgym.store import RunStore, StorageError

SUFFIX = ".sock"
LONGEST_PATH = 100
"""Bytes of a socket's path; Linux has room for 107, macOS for 103."""
ASK_TIMEOUT = 30.0
REQUEST_TIMEOUT = 10.0
ANSWER_TIMEOUT = 25.0
CLOSE_TIMEOUT = 2.0
ROOT = 0
_CREDENTIALS = struct.Struct("3i")
_ANSWER = JsonDecoder(ControlAnswer)
_COMMAND: JsonDecoder[Command] = JsonDecoder(Command)
_log = logging.getLogger(__name__)


class ControlUnreachableError(Exception):
    """No collection answers at a socket."""


class BoundSocket(Closable):
    """A socket that is bound for a control log; closing it removes it."""

    def __init__(self, control_log: Path) -> None:
        """Raises OSError where no socket can be made."""
        self.path = control_log.with_suffix(SUFFIX)
        self._folder: Path | None = None
        self.socket = socket.socket(socket.AF_UNIX)
        try:
            self._bind()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.socket.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _bind(self) -> None:
        _remove(self.path)
        if len(os.fsencode(self.path)) <= LONGEST_PATH:
            try:
                self._bind_at(self.path)
            except OSError:  # the file system has no sockets
                self.path.unlink(missing_ok=True)
            else:
                return
        self._folder = Path(tempfile.mkdtemp(prefix="rollgym-ctl-"))
        place = self._folder / self.path.name
        self._bind_at(place)
        self.path.symlink_to(place)

    def _bind_at(self, place: Path) -> None:
        self.socket.bind(str(place))
        place.chmod(0o600)  # no one can connect before it listens


def _remove(path: Path) -> None:
    """Remove the socket of a killed process, and its folder if it has one."""
    if path.is_symlink():
        folder = path.readlink().parent
        if folder.name.startswith("rollgym-ctl-"):
            shutil.rmtree(folder, ignore_errors=True)
    path.unlink(missing_ok=True)


def sockets_of(directory: Path) -> list[Path]:
    """The sockets of a run and its shards; their processes may have been killed."""
    return sorted(directory.glob(f"control*{SUFFIX}"))


def caller_of(connection: socket.socket) -> str:
    """Who is at the other end. Raises PermissionError for another user than ours and root."""
    user, process = os.getuid(), ""
    if hasattr(socket, "SO_PEERCRED"):
        size = _CREDENTIALS.size
        given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        number, user, _ = _CREDENTIALS.unpack(given)
        process = f" (process {number})"
    if user not in (ROOT, os.getuid()):
        raise PermissionError(f"the user {_name(user)} does not collect this run")
    return f"{_name(user)}{process}"


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def ask(path: Path, command: Command, seconds: float = ASK_TIMEOUT) -> ControlAnswer:
    """Send a command to a collection and return its answer. Raises ControlUnreachableError."""
    deadline = time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(seconds)
            connection.connect(str(path.readlink() if path.is_symlink() else path))
            connection.sendall(encode(command))
            return _ANSWER.decode(_line(connection, deadline))
    except TimeoutError as error:
        raise ControlUnreachableError(
            f"the collection did not answer within {seconds:.0f} s; its event loop may be blocked"
        ) from error
    except PermissionError as error:
        raise ControlUnreachableError(f"{path} belongs to another user") from error
    except (OSError, ValueError) as error:
        raise ControlUnreachableError(f"no collection answers at {path} ({error})") from error


def _line(connection: socket.socket, deadline: float) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        part = connection.recv(LARGEST_MESSAGE)
        if not part or len(received) > LARGEST_MESSAGE:
            raise msgspec.DecodeError("the answer is not complete")
        received += part
    return received


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
