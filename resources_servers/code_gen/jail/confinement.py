# pathlib costs more to import than everything in this folder.
# ruff: noqa: PTH110, PTH118, PTH120
"""Everything a process gives up before it runs a program, in the only order that works.

Resource limits hold everywhere. The layers are those that the judge found this machine to have and
therefore asks for; one that fails is an error, never skipped.
"""

import os
import resource
import sys

from resources_servers.code_gen.jail import kernel, landlock, namespaces, seccomp
from resources_servers.code_gen.jail.job import Job, Limits

NAMESPACES, LANDLOCK, SECCOMP = "namespaces", "landlock", "seccomp"
_DEVICES = ["/dev/null"]


def leave_machine(job: Job) -> None:
    """What has to be done before the process of the program is forked."""
    if sys.platform == "linux":
        _be_the_first_to_go()
    if NAMESPACES in job.layers:
        namespaces.enter(python_files(), _DEVICES, job.limits.scratch)


def confine(job: Job) -> None:
    """What the process of the program does to itself. Raises OSError."""
    isolated = NAMESPACES in job.layers
    os.chdir(namespaces.SCRATCH if isolated else "/")
    _limit(job.limits, alone=isolated)
    if sys.platform != "linux":
        return
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if LANDLOCK in job.layers:
        # Only in memory can the size of what is written be bounded; without that, no writing.
        writable = [namespaces.SCRATCH, *_DEVICES] if isolated else _DEVICES
        landlock.restrict(python_files(), writable)
    if SECCOMP in job.layers:
        seccomp.install()


def _be_the_first_to_go() -> None:
    """If the machine runs out of memory, it is a program that has to go, not the judge."""
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(descriptor, b"1000")
    os.close(descriptor)


def python_files() -> list[str]:
    """What a Python program without third-party packages reads, none inside another."""
    candidates = [
        os.path.join(sys.base_prefix, "lib"),
        os.path.dirname(os.__file__),
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/etc/ld.so.cache",
        "/usr/share/zoneinfo",
    ]
    existing = {path for path in candidates if os.path.exists(path)}
    found: list[str] = []
    for path in sorted(existing | {os.path.realpath(path) for path in existing}):
        if not any(path.startswith(other + "/") for other in found):
            found.append(path)
    return found


def _limit(limits: Limits, *, alone: bool) -> None:
    """`alone`: no other process counts towards the same user."""
    bounds = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.scratch,
        resource.RLIMIT_NOFILE: limits.open_files,
    }
    if sys.platform == "linux":
        bounds[resource.RLIMIT_AS] = limits.memory
        if alone:
            bounds[resource.RLIMIT_NPROC] = limits.threads
    for which, bound in bounds.items():
        resource.setrlimit(which, (bound, bound))
