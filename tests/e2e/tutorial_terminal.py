"""A newcomer's terminal: bash in a folder, with an empty home and the commands on the path."""

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.e2e.command import PATIENCE, Ended, wait_until

_COMMENT = re.compile(r"\s*(\\\s*)?(\s#.*)?$")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def one_line(block: str) -> str:
    """A block of the tutorial as its reader means it.

    It has comments behind the backslashes that continue a line, which no shell takes.
    """
    lines = (_COMMENT.sub("", line) for line in block.splitlines() if not line.startswith("#"))
    return " ".join(line.strip() for line in lines if line.strip())


class Terminal:
    """Runs what is typed, by bash, in `folder`."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        commands = Path(sys.executable).parent
        self.environment = {
            "HOME": str(home),
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
        }

    def run(self, typed: str) -> Ended:
        """To its end."""
        with self._start(typed, subprocess.PIPE, subprocess.PIPE) as process:
            stdout, stderr = process.communicate(timeout=PATIENCE)
        return Ended(process.returncode, stdout.decode(), stderr.decode())

    def watch(self, typed: str) -> tuple[int, str]:
        """To its end, on a real terminal: the exit status, and all that was drawn, as text."""
        terminal, inside = pty.openpty()
        drawn = b""
        try:
            with self._start(typed, inside, inside) as process:
                os.close(inside)
                while chunk := _read(terminal):
                    drawn += chunk
                status = process.wait(PATIENCE)
        finally:
            os.close(terminal)
        return status, _CONTROL.sub("", drawn.decode())

    def keep(self, typed: str, said: Path) -> "Running":
        """Start what stays until Ctrl-C; both of its streams go to a file."""
        with said.open("wb") as file:
            return Running(self._start(typed, file, file), said)

    def _start(
        self, typed: str, stdout: int | IO[bytes], stderr: int | IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["bash", "-e", "-o", "pipefail", "-c", typed],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )


class Running:
    """A command that is running, with all the processes it started, and what it said so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", said: Path) -> None:
        self.process = process
        self.said = said

    def wait_for(self, text: str) -> str:
        """Until it has printed this; all that it printed."""
        wait_until(lambda: text in self.said.read_text() or self.process.poll() is not None)
        printed = self.said.read_text()
        assert text in printed, printed
        return printed

    def press_ctrl_c(self) -> int:
        """What a terminal then does; the exit status, once nothing of it is left."""
        os.killpg(self.process.pid, signal.SIGINT)
        status = self.process.wait(PATIENCE)
        wait_until(self._is_gone)
        return status

    def kill(self) -> None:
        """After a test that went wrong."""
        if not self._is_gone():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)

    def _is_gone(self) -> bool:
        self.process.poll()
        try:
            os.killpg(self.process.pid, 0)
        except ProcessLookupError:
            return True
        return False


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux tells so that nobody is left at the other end
        return b""
