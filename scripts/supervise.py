"""Runs commands one after another, and leaves no process behind.

usage: supervise.py COMMAND [ARGUMENT ...] [-- COMMAND [ARGUMENT ...]]

The second command runs also when the first has failed; the exit status is that of the last command
that failed. When the commands have ended, and when this program is interrupted, terminated or
killed, every process that they started is ended, also in other process groups and sessions.

Two processes do that. The first waits and forwards signals. The second, the guard, starts the
commands and adopts their orphans (it is a child subreaper, which only Linux has). The guard is in a
process group of its own, so that a signal to the group of the first does not reach it. When the
first dies, the kernel sends SIGTERM to the guard; when the guard dies, the first adopts the
orphans. The commands are in the group of the first, where the terminal's Ctrl-C reaches them.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Processes that are left get this many seconds until SIGTERM, SIGKILL, and until they are given up.
_TERMINATE, _KILL, _GIVE_UP = 0.5, 3, 13


class Guard:
    """The process that starts the commands, in the process group of the first process."""

    def __init__(self, first: int, group: int) -> None:
        self._first = first
        self._group = group
        self._running = 0

    def run(self, commands: list[list[str]]) -> int:
        os.setpgid(0, 0)
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        for number in _STOPPING:
            if number == signal.SIGTERM or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._stop)
        try:
            status = 0
            while os.getppid() == self._first and commands and status != 128 + signal.SIGINT:
                status = self._run_one(commands.pop(0)) or status
        except SystemExit as stopped:
            for number in _STOPPING:
                signal.signal(number, signal.SIG_IGN)
            _end_descendants(0)
            status = int(stopped.code or 0)
        return status

    def _run_one(self, command: list[str]) -> int:
        self._running = self._start(command)
        ended = status = 0
        while ended != self._running:  # the others are adopted orphans
            ended, status = os.waitpid(-1, 0)
        self._running = 0
        if left := _end_descendants(_TERMINATE):
            _say(f"Ended {len(left)} processes that {command[0]} left: {', '.join(left)}")
        return _exit_status(status)

    def _start(self, command: list[str]) -> int:
        pid = os.fork()
        if not pid:
            os.setpgid(0, self._group)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            try:
                os.execvp(command[0], command)  # noqa: S606
            except OSError as error:
                _say(f"{command[0]} cannot be started: {error}")
            os._exit(127)
        return pid

    def _stop(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT or not self._running:
            raise SystemExit(128 + number)
        for pid in _descendants():  # as the terminal does
            with contextlib.suppress(ProcessLookupError):
                if os.getpgid(pid) == self._group:
                    os.kill(pid, number)


def main(arguments: list[str]) -> int:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    commands = [command for command in (arguments[:split], arguments[split + 1 :]) if command]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    first, group = os.getpid(), os.getpgrp()
    guard = os.fork()
    if not guard:
        os._exit(Guard(first, group).run(commands))

    def forward(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            if number == signal.SIGINT and os.tcgetpgrp(0) == group:
                return  # the terminal has sent it to the command as well
        os.kill(guard, number)

    for number in _STOPPING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, forward)
    status = os.waitpid(guard, 0)[1]
    _end_descendants(0)  # which the guard leaves only when it is killed
    return _exit_status(status)


def _end_descendants(grace: float) -> list[str]:
    """End every process below this one, and return the commands of those that had to be told."""
    began, told = time.monotonic() - _TERMINATE + grace, dict[int, str]()
    while (waited := time.monotonic() - began) < _GIVE_UP:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = _descendants()
        if not left:
            break
        for pid, name in left.items():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if waited >= _KILL:
                    os.kill(pid, signal.SIGKILL)
                elif waited >= _TERMINATE and pid not in told:
                    told[pid] = name
                    os.kill(pid, signal.SIGTERM)
        time.sleep(0.02)
    return list(told.values())


def _descendants() -> dict[int, str]:
    """Every process below this one, and its command."""
    listed = {}  # for each process its parent and its command
    if sys.platform == "linux":
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name, fields = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
                listed[int(folder.name)] = int(fields.split()[1]), name
    else:
        command = ["/bin/ps", "-A", "-o", "pid=,ppid=,comm="]
        for line in subprocess.check_output(command, text=True).splitlines():  # noqa: S603
            pid, parent, name = line.split(None, 2)
            listed[int(pid)] = int(parent), name
    below: dict[int, str] = {}
    parents = {os.getpid()}
    while parents:
        found = {pid: name for pid, (parent, name) in listed.items() if parent in parents}
        below |= found
        parents = set(found)
    return below


def _exit_status(status: int) -> int:
    """The exit status of a process as a shell gives it: 128 and the number of a signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _say(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
