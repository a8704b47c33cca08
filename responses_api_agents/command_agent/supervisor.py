"""The small process between the server and the command of an agent: it ends all that was started.

The server starts this file by its path, in a session of its own, with a socket and the command as
arguments. The command gets the standard streams. This process waits for one of three things:

- the command ends: whatever it left behind is ended, and the status is reported;
- the server sends a byte, or is gone, so that the socket ends: the command is asked to end
  (SIGTERM), and killed with all its descendants after the grace period; with the byte `k`, which
  may also come later, at once.

On Linux, a process whose parent ends becomes a child of this one (`PR_SET_CHILD_SUBREAPER`), also
where it made a session of its own. So descendants are found and killed until there are none. On
other systems, the process group is killed.

It imports nothing of the package and only small modules, so that it costs 30 ms of CPU.
"""

import contextlib
import os
import select
import signal
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_ENDING = 5.0
"""The most seconds for killing, in which new processes may still appear."""
_NOT_STARTED = 127
_KILL = b"k"


def main(control: int, grace: float, command: list[str]) -> None:
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    _adopt_orphans()
    child = os.fork()
    if not child:
        _run(command, control)
    for stream in (0, 1, 2):
        os.close(stream)
    status = _wait(child, control, woken, grace)
    os.set_blocking(control, False)
    _end_all(child, control, grace if status is not None else 0.0)
    if status is None:
        status = _reap(child)
    code = "?" if status is None else str(os.waitstatus_to_exitcode(status))
    with contextlib.suppress(OSError):  # the server is gone
        os.write(control, code.encode())
    os._exit(0)


def _run(command: list[str], control: int) -> None:
    """Become the command. It leads a process group of its own."""
    os.close(control)
    os.setpgid(0, 0)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the words of the user
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error.strerror}\n".encode())
        os._exit(_NOT_STARTED)


def _wait(child: int, control: int, woken: int, grace: float) -> "int | None":
    """The wait status of the command; None where it had to be killed."""
    deadline: float | None = None
    watched = [woken, control]
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return None
        ready = select.select(watched, [], [], left)[0]
        if woken in ready:
            os.read(woken, 4096)
        if control in ready:
            try:
                asked = os.read(control, 1)
            except OSError:
                asked = b""
            if not asked:
                watched.remove(control)
            if deadline is None or asked == _KILL:
                deadline = time.monotonic() + (grace if asked != _KILL else 0.0)
                _signal_group(child, signal.SIGTERM)


def _end_all(child: int, control: int, grace: float) -> None:
    """End the remaining processes: asked for the grace period, then killed."""
    asked = time.monotonic() + grace
    pause = 0.001
    told: set[int] = set()
    while (now := time.monotonic()) < asked + _ENDING:
        if now < asked and _is_told_to_kill(control):
            asked = now
        _reap_all(child)
        left = _descendants()
        if left is None:
            _signal_group(child, signal.SIGKILL)
            return
        if not left:
            return
        for process in left:
            if now >= asked:
                _signal(process, signal.SIGKILL)
            elif process not in told:
                told.add(process)
                _signal(process, signal.SIGTERM)
        time.sleep(pause)
        pause = min(0.05, 2 * pause)


def _is_told_to_kill(control: int) -> bool:
    try:
        return os.read(control, 1) == _KILL
    except OSError:  # nothing was sent
        return False


def _descendants() -> "list[int] | None":
    """All processes below this one that still run; None where the system does not list them."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return None
    for name in names:
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != b"Z":
            children.setdefault(int(parent), []).append(int(name))
    found: list[int] = []
    below = [os.getpid()]
    while below:
        below = [each for process in below for each in children.get(process, ())]
        found += below
    return found


_STATUS: dict[int, int] = {}


def _reap_all(child: int) -> None:
    while True:
        try:
            done, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not done:
            return
        if done == child:
            _STATUS[child] = status


def _reap(child: int) -> "int | None":
    _reap_all(child)
    return _STATUS.get(child)


def _signal(process: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(process, number)


def _signal_group(child: int, number: int) -> None:
    try:
        os.killpg(child, number)
    except OSError:
        _signal(child, number)


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - other systems do without

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
