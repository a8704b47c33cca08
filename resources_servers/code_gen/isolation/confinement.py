# pathlib costs more to import than everything in this folder.
# ruff: noqa: PTH110, PTH112, PTH118, PTH120
"""The job of a launcher, and everything that a process gives up before it runs a program.

*Job.* The server sends the program, how to run it, the limits and the layers. A job is encoded with
`marshal`, which costs nothing to import and keeps plain data exactly. That is safe only in this
direction: the launcher trusts the server.

*Order.* The steps work only in this order. Resource limits apply everywhere. The layers are those
that the server found on this machine; one that fails is an error and is never skipped.

*Landlock* decides which files a process may touch, whatever its user may. It is a second wall
inside the root of the namespaces, and the only one on a machine without namespaces. Nothing may be
executed anywhere. Landlock does not restrict asking for the attributes of a file.
"""

from __future__ import annotations

import marshal
import os
import resource
import sys

from resources_servers.code_gen.isolation import kernel, namespaces, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTH_BYTES = 8


class ResourceLimits:
    """The resources of one run. Sizes are in bytes."""

    __slots__ = ("cpu_seconds", "memory", "open_files", "scratch", "threads")

    def __init__(
        self, *, cpu_seconds: int, memory: int, scratch: int, threads: int, open_files: int
    ) -> None:
        self.cpu_seconds = cpu_seconds
        self.memory = memory
        self.scratch = scratch
        self.threads = threads
        self.open_files = open_files


class ProgramJob:
    """One run of one program. With an entry point the function is called and its result returned.

    `parent` is the process of the server; `layers` isolate the program.
    """

    __slots__ = ("arguments", "entry_point", "layers", "limits", "parent", "source")

    def __init__(
        self,
        *,
        source: str,
        limits: ResourceLimits,
        layers: Sequence[str],
        parent: int,
        entry_point: str | None = None,
        arguments: Sequence[object] = (),
    ) -> None:
        self.source = source
        self.limits = limits
        self.layers = layers
        self.parent = parent
        self.entry_point = entry_point
        self.arguments = arguments

    def to_bytes(self) -> bytes:
        """Raises ValueError for arguments that are not plain data."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        fields["limits"] = {name: getattr(self.limits, name) for name in ResourceLimits.__slots__}
        fields["layers"], fields["arguments"] = list(self.layers), list(self.arguments)
        body = marshal.dumps(fields)
        return len(body).to_bytes(LENGTH_BYTES, "little") + body

    @classmethod
    def from_bytes(cls, body: bytes) -> ProgramJob:
        fields = marshal.loads(body)  # noqa: S302 - the server wrote it
        fields["limits"] = ResourceLimits(**fields["limits"])
        return cls(**fields)


_WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
_TCP = 0b11
_SCOPES = 0b11
_ASK_VERSION = 1
_PATH_BENEATH = 1


def _restrict_files(readable: list[str], writable: list[str]) -> None:
    """Allow this process only these paths. Raises OSError on a machine without Landlock.

    `no_new_privs` has to be set already.
    """
    version = kernel.system_call("landlock_create_ruleset", None, 0, _ASK_VERSION)
    files = _FIRST_RIGHTS
    if version >= 2:
        files |= _REFER
    if version >= 3:
        files |= _TRUNCATE
    if version >= 5:
        files |= _DEVICE_CONTROL
    ruleset = files.to_bytes(8, "little")
    if version >= 4:
        ruleset += _TCP.to_bytes(8, "little")
    if version >= 6:
        ruleset += _SCOPES.to_bytes(8, "little")
    descriptor = kernel.system_call("landlock_create_ruleset", ruleset, len(ruleset), 0)
    for path in readable:
        _allow(descriptor, path, _READ_FILE | _READ_FOLDER)
    for path in writable:
        # The first right is execution.
        _allow(descriptor, path, files & ~1)
    kernel.system_call("landlock_restrict_self", descriptor, 0)
    os.close(descriptor)


def _allow(ruleset: int, path: str, rights: int) -> None:
    target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):
        rights &= _WRITE_FILE | _READ_FILE | _TRUNCATE
    rule = rights.to_bytes(8, "little") + target.to_bytes(4, "little")
    kernel.system_call("landlock_add_rule", ruleset, _PATH_BENEATH, rule, 0)
    os.close(target)


NAMESPACES, LANDLOCK, SECCOMP = "namespaces", "landlock", "seccomp"
_DEVICES = ["/dev/null"]


def leave_machine(job: ProgramJob) -> None:
    """Do what is needed before the process of the program is forked."""
    if sys.platform == "linux":
        _prefer_for_out_of_memory_kill()
    if NAMESPACES in job.layers:
        namespaces.enter(python_files(), _DEVICES, job.limits.scratch)


def confine(job: ProgramJob) -> None:
    """Confine the process of the program, which calls this. Raises OSError."""
    isolated = NAMESPACES in job.layers
    os.chdir(namespaces.SCRATCH if isolated else "/")
    _limit(job.limits, alone=isolated)
    if sys.platform != "linux":
        return
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if LANDLOCK in job.layers:
        # Only in memory can the size of files be limited; without that folder, no writing.
        writable = [namespaces.SCRATCH, *_DEVICES] if isolated else _DEVICES
        _restrict_files(python_files(), writable)
    if SECCOMP in job.layers:
        seccomp.install()


def _prefer_for_out_of_memory_kill() -> None:
    """If the machine runs out of memory, the kernel kills the program and not the server."""
    descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    os.write(descriptor, b"1000")
    os.close(descriptor)


def python_files() -> list[str]:
    """Paths that a Python program without third-party packages reads; none is inside another."""
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


def _limit(limits: ResourceLimits, *, alone: bool) -> None:
    """Set the limits. `alone`: no other process belongs to the same user."""
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
