# pathlib costs more to import than everything in this folder.
# ruff: noqa: PTH102, PTH103, PTH112, PTH114, PTH115, PTH120, PTH211
"""Namespaces: a program sees no network, no other processes and no files of the machine.

*Network.* The network is empty, without a working loopback.
*Processes.* The program is the first process of its namespace; when it ends, the kernel kills every
other process in it.
*Files.* The new root contains only the files that a Python program reads, mounted read-only, and
one small folder in memory for writing. Other files of the machine are absent, not just forbidden.
*User.* Started by root, a program runs as a user id that no account has. Started by another user,
it gets a user namespace in which it is `nobody`, and that namespace permits the other ones.
"""

import os

from resources_servers.code_gen.isolation import kernel

SCRATCH = "/scratch"
NOBODY = 65534
# Above what accounts and containers use; the number of the process makes it unique.
_FIRST_USER = 0x70000000
# Any folder that certainly exists; its content is not needed any more.
_STAGE = "/proc"
_INODES = 1024

_NEW_MOUNTS, _NEW_IPC, _NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = (
    0x00020000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXECUTION = 1, 2, 4, 8
_REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1 << 5, 1 << 12, 1 << 14, 1 << 18
_DETACH = 2
# Flags that a namespace must keep as it found them, as `statvfs` and as `mount` write them.
_KEPT = {4: 4, 8: 8, 1 << 10: 1 << 10, 1 << 11: 1 << 11, 1 << 12: 1 << 21}


def enter(readable: list[str], writable: list[str], scratch_bytes: int) -> None:
    """Enter new namespaces. The next child is the first process in them.

    Raises OSError if the kernel does not allow it.
    """
    alone = _NEW_MOUNTS | _NEW_IPC | _NEW_PROCESSES | _NEW_NETWORK
    if os.geteuid() == 0:
        kernel.unshare(alone)
        _change_root(readable, writable, scratch_bytes)
        _become(_FIRST_USER + os.getpid())
    else:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(alone | _NEW_USER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/gid_map", f"{NOBODY} {group} 1")
        _write("/proc/self/uid_map", f"{NOBODY} {user} 1")
        _change_root(readable, writable, scratch_bytes)


def _become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _change_root(readable: list[str], writable: list[str], scratch_bytes: int) -> None:
    kernel.mount("none", "/", "", _RECURSIVE | _PRIVATE)
    kernel.mount("root", _STAGE, "tmpfs", _NO_SUID, "size=1m,mode=755")
    for path in readable:
        _show(path, _READ_ONLY | _NO_SUID)
    for path in writable:
        _show(path, _NO_SUID)
    scratch = _STAGE + SCRATCH
    os.mkdir(scratch)
    kernel.mount(
        "scratch",
        scratch,
        "tmpfs",
        _NO_SUID | _NO_DEVICES | _NO_EXECUTION,
        f"size={scratch_bytes},nr_inodes={_INODES},mode=777",
    )
    os.chdir(_STAGE)
    kernel.system_call("pivot_root", b".", b".")
    # The old root now lies over the new one.
    kernel.unmount(".", _DETACH)
    os.chdir("/")
    kernel.mount("none", "/", "", _REMOUNT | _BIND | _READ_ONLY | _NO_SUID)


def _show(path: str, flags: int) -> None:
    """Mount a path of the machine into the new root."""
    shown = _STAGE + path
    os.makedirs(os.path.dirname(shown), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), shown)
        return
    if os.path.isdir(path):
        os.makedirs(shown, exist_ok=True)
    else:
        _write(shown, "")
    kernel.mount(path, shown, "", _BIND | _RECURSIVE)
    found = os.statvfs(shown).f_flag
    kept = sum(flag for bit, flag in _KEPT.items() if found & bit)
    kernel.mount("none", shown, "", _REMOUNT | _BIND | flags | kept)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
