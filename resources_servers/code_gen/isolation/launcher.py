"""The launcher: a small trusted process around every run of a program.

The server starts it and sends it a job. It enters the namespaces, if the job has that layer, and
forks. The child confines itself and runs the program; the launcher waits and reports how it ended.

*Channels.* The server and the launcher talk over a socket that the child closes before the program
starts. The other three channels are the program's standard streams; the launcher closes its copies,
so they end with the program.

*Reports.* `started` when everything is ready and the program runs next; `ended` with the wait
status and the processor time; or `error` with the reason why the program did not start.

*Life.* The kernel kills the launcher when the server ends, and the child when the launcher ends.
The server kills the process group of both when the time is up.
"""

import os
import sys

if __name__ == "__main__":
    # The flags of the interpreter limit the search path to the standard library.
    sys.path.insert(0, __file__.rsplit("/", 4)[0])

from resources_servers.code_gen.isolation import kernel, program
from resources_servers.code_gen.isolation.confinement import (
    LENGTH_BYTES,
    ProgramJob,
    confine,
    leave_machine,
)

BROKEN = 70


def main(control: int) -> None:
    size = int.from_bytes(_receive(control, LENGTH_BYTES), "little")
    job = ProgramJob.from_bytes(_receive(control, size))
    try:
        leave_machine(job)
        _die_with_parent()
        if os.getppid() != job.parent:
            raise ProcessLookupError("the server has ended")
        alive, lifeline = os.pipe()
        child = os.fork()
        if not child:
            os.close(lifeline)
            _die_with_parent()
            _require_parent(alive)
            confine(job)
    except OSError as error:
        _say(control, f"error {error}")
        os._exit(BROKEN)
    if child:
        _attend(child, control)
    else:
        _say(control, "started")
        os.close(control)
        del sys.path[0]
        if job.entry_point is None:
            program.run(job.source)
        else:
            program.call(job.source, job.entry_point, job.arguments)


def _attend(child: int, control: int) -> None:
    for stream in (0, 1, 2):
        os.close(stream)
    _, status, usage = os.wait4(child, 0)
    _say(control, f"ended {status} {usage.ru_utime + usage.ru_stime:.6f}")
    os._exit(0)


def _die_with_parent() -> None:
    if sys.platform == "linux":
        kernel.prctl(kernel.PR_SET_PDEATHSIG, kernel.SIGKILL)


def _require_parent(alive: int) -> None:
    """End if the launcher ended before the child asked to be killed with it.

    Nothing is ever written to this pipe, so it has an end to read only if the launcher has ended.
    """
    os.set_blocking(alive, False)
    try:
        os.read(alive, 1)
    except BlockingIOError:
        os.close(alive)
    else:
        os._exit(BROKEN)


def _receive(control: int, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = os.read(control, size - len(received))
        if not chunk:
            sys.exit("the server closed the connection before it sent the job")
        received += chunk
    return received


def _say(control: int, message: str) -> None:
    os.write(control, message.encode("utf-8", "replace") + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
