"""The launcher: a small trusted process around every run of a program.

It is started by the judge, gets a job, leaves the machine as far as the layers go, and forks. The
child confines itself and runs the program; the launcher waits and tells the judge how it ended.

*Channels.* The judge and the launcher talk over a socket that the child closes before the program
starts. The other three are the program's standard streams; the launcher keeps none of them, so
they end with the program.

*What is said.* `started` when everything is in place and the program is next; `ended` with the wait
status and the processor time; or `fault` with the reason why it did not come to that.

*Life.* The launcher dies with the judge and the child with the launcher, by a signal that the
kernel sends. The process group of both is killed by the judge when time is up.
"""

import os
import sys

if __name__ == "__main__":
    # The interpreter was told to look at the standard library only.
    sys.path.insert(0, __file__.rsplit("/", 4)[0])

from resources_servers.code_gen.jail import kernel, program
from resources_servers.code_gen.jail.confinement import confine, leave_machine
from resources_servers.code_gen.jail.job import LENGTH_BYTES, Job

BROKEN = 70


def main(control: int) -> None:
    size = int.from_bytes(_receive(control, LENGTH_BYTES), "little")
    job = Job.from_bytes(_receive(control, size))
    try:
        leave_machine(job)
        _die_with_parent()
        if os.getppid() != job.parent:
            raise ProcessLookupError("the judge is gone")
        alive, lifeline = os.pipe()
        child = os.fork()
        if not child:
            os.close(lifeline)
            _die_with_parent()
            _require_parent(alive)
            confine(job)
    except OSError as error:
        _say(control, f"fault {error}")
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
    """The launcher may have died before the child asked to die with it.

    Nothing is ever written to this pipe, so there is an end to read only if the launcher is gone.
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
            sys.exit("the judge went away before it had given the job")
        received += chunk
    return received


def _say(control: int, message: str) -> None:
    os.write(control, message.encode("utf-8", "replace") + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
