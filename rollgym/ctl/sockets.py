"""The sockets of running collections: where they are, who may use them, and asking through one.

*Place.* `control.sock` in the run directory, named as the control log. The path of a Unix socket
may have about a hundred bytes, and some file systems have no sockets. Where it cannot be made
there, it is made in a folder of its own among the temporary files, and `control.sock` is a link to
it.

*Killed processes* leave their sockets. Who binds one holds the lock of the journal, so a socket
that is there already belongs to no process and is replaced. At one that is left nothing answers.

*Users.* Only the user who collects may open the socket (mode 0600, set before anybody can connect).
Where the operating system tells who connects, it is checked again.
"""

import contextlib
import os
import pwd
import shutil
import socket
import struct
import tempfile
import time
from pathlib import Path

import msgspec

from rollgym.closing import Closable
from rollgym.ctl.commands import LARGEST_MESSAGE, Command, ControlAnswer, encode
from rollgym.records.decoding import JsonDecoder

SUFFIX = ".sock"
LONGEST_PATH = 100
"""Bytes of a socket's path; Linux has room for 107, macOS for 103."""
ASK_TIMEOUT = 30.0
ROOT = 0
_CREDENTIALS = struct.Struct("3i")
_ANSWER = JsonDecoder(ControlAnswer)


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
