"""The processes of a Chromium and the memory that they hold.

A Chromium is a dozen processes or more: the browser itself, zygotes, one for graphics, one for the
network, one renderer for each session. All stay in the process group of the first one, so the group
is listed and killed as a whole.

*Memory* of a process is its private memory: on Linux its resident pages minus the shared ones
(`/proc/…/statm`), which is what Chromium's own task manager shows, except for swap. Resident size
alone counts the 200 MB of program text once for each process. The proportional size would be more
exact, but takes 80 times as long, because the kernel walks all pages. On other systems `ps` is
used, which only knows the resident size.

*Cost* on Linux: 2 µs for each process of the machine and 28 µs for each of the group, so 1 ms for a
browser with 16 sessions; callers still run it in a thread.
"""

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

PS_TIMEOUT = 5.0
_HAS_PROC = sys.platform == "linux"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATE, _PARENT, _THREADS = 0, 1, 17
"""The positions of these fields in `/proc/…/stat`, counted from the state."""
_TYPE = re.compile(rb"--type=([\w-]+)")
_SERVICE = re.compile(rb"--utility-sub-type=(\w+)")


class ProcessInfo(msgspec.Struct, frozen=True):
    """One process of a Chromium.

    `kind` is "browser", "renderer", "gpu-process", "zygote", or the name of a service such as
    "network"; a shell that started the browser is a "launcher". A process that a zygote has just
    forked looks like a zygote for a moment, so the `parent` of zygotes is recorded.
    """

    pid: int
    kind: str
    memory: int
    parent: int | None = None


class _ListedProcess(msgspec.Struct, frozen=True):
    """A process in the list of the system."""

    pid: int
    group: int
    memory: int
    command: bytes


def read_groups(groups: Collection[int]) -> dict[int, list[ProcessInfo]]:
    """The living processes of each of these groups; blocks. Raises TimeoutError and OSError."""
    found: dict[int, list[ProcessInfo]] = {group: [] for group in groups}
    for process in _listed(groups):
        kind = kind_of(process.command)
        parent = int(_stat(process.pid)[_PARENT]) if kind == "zygote" else None
        found[process.group].append(ProcessInfo(process.pid, kind, process.memory, parent))
    return found


def any_unfinished(group: int) -> bool:
    """Whether a process of the group still runs, and so may still leave children to this process.

    Blocks. Raises TimeoutError and OSError.
    """
    if not _HAS_PROC:
        return bool(read_groups([group])[group])
    return any(not _is_finished(pid) for pid in _pids([group]))


def processes_naming(text: str) -> list[int]:
    """The processes whose command line holds this text; blocks."""
    named = text.encode()
    return [process.pid for process in _listed(None) if named in process.command]


def kind_of(command: bytes) -> str:
    """The kind of a Chromium process, by its command line.

    Processes that a zygote forks have spaces instead of zero bytes in theirs.
    """
    if found := _TYPE.search(command):
        service = _SERVICE.search(command) if found[1] == b"utility" else None
        return (service or found)[1].decode()
    program, _, rest = command.partition(b"\0")
    is_shell = Path(os.fsdecode(program)).name in {"sh", "bash", "dash"}
    return "launcher" if is_shell or not rest else "browser"


def _listed(groups: Collection[int] | None) -> Iterator[_ListedProcess]:
    """The processes of these groups, or all, without zombies."""
    return _from_proc(groups) if _HAS_PROC else _from_ps(groups)


def _from_proc(groups: Collection[int] | None) -> Iterator[_ListedProcess]:
    for pid in _pids(groups):
        try:
            _, resident, shared, *_ = _read(f"/proc/{pid}/statm").split()
            if resident != b"0":
                memory = (int(resident) - int(shared)) * _PAGE
                command = _read(f"/proc/{pid}/cmdline")
                yield _ListedProcess(pid, os.getpgid(pid), memory, command)
        except OSError:
            continue  # it ended just now, or we may not read it


def _pids(groups: Collection[int] | None) -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - a thousand paths would cost more than the rest
        if name.isdecimal():
            with suppress(ProcessLookupError):
                if groups is None or os.getpgid(int(name)) in groups:
                    yield int(name)


def _is_finished(pid: int) -> bool:
    """Whether it is a zombie with one thread. Other threads may end after the first one."""
    fields = _stat(pid)
    return fields[_STATE] in {b"Z", b"X"} and int(fields[_THREADS]) <= 1


def _stat(pid: int) -> list[bytes]:
    """The fields of `/proc/…/stat` from the state on, also for a process that has ended."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return [b"X", *[b"0"] * _THREADS]


def _from_ps(groups: Collection[int] | None) -> Iterator[_ListedProcess]:
    columns = ("pid=", "pgid=", "rss=", "state=", "command=")
    command = ["/bin/ps", "-A", "-ww", *(word for column in columns for word in ("-o", column))]
    try:
        listing = subprocess.run(command, capture_output=True, timeout=PS_TIMEOUT, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"ps took more than {PS_TIMEOUT:g} s") from error
    for line in listing.stdout.splitlines():
        pid, group, kilobytes, state, *words = line.split(None, 4)
        if state.startswith(b"Z") or (groups is not None and int(group) not in groups):
            continue
        shown = (words[0] if words else b"").replace(b" ", b"\0", 1)
        yield _ListedProcess(int(pid), int(group), int(kilobytes) * 1024, shown)


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)
