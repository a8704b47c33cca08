"""Calls to the Linux kernel that the standard library does not have.

Each raises OSError with the name of the call, so that the message says which layer is missing. The
modules of this folder run before every program, so they import only modules that load quickly, and
neither `typing`, `collections` nor `signal`.
"""

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
SIGKILL = 9

_CAPABILITY_VERSION = 0x20080522
_NUMBERS = {
    "x86_64": {"pivot_root": 155, "capset": 126, "seccomp": 317},
    "aarch64": {"pivot_root": 41, "capset": 91, "seccomp": 277},
}
# These have the same number on every architecture.
_SHARED_NUMBERS = {
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}

_libc = ctypes.CDLL(None, use_errno=True)


def machine() -> str:
    """The name of the architecture. Raises OSError for one that is not supported."""
    name = os.uname().machine
    if name not in _NUMBERS:
        raise OSError(f"the architecture {name} is not supported")
    return name


def system_call(name: str, *arguments: "int | bytes | ctypes.Array[ctypes.c_char] | None") -> int:
    """Pass numbers as whole registers and everything else as an address."""
    number = _SHARED_NUMBERS.get(name) or _NUMBERS[machine()][name]
    registers = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(name, _libc.syscall(ctypes.c_long(number), *registers))


def prctl(option: int, value: int) -> None:
    arguments = [ctypes.c_ulong(each) for each in (value, 0, 0, 0)]
    _checked(f"prctl({option})", _libc.prctl(ctypes.c_int(option), *arguments))


def unshare(flags: int) -> None:
    _checked("unshare", _libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    texts = [os.fsencode(each) for each in (source, target, kind)]
    result = _libc.mount(*texts, ctypes.c_ulong(flags), os.fsencode(options))
    _checked(f"mount {target}", result)


def unmount(target: str, flags: int) -> None:
    _checked(f"umount {target}", _libc.umount2(os.fsencode(target), ctypes.c_int(flags)))


def drop_capabilities() -> None:
    header = _CAPABILITY_VERSION.to_bytes(4, "little") + bytes(4)
    system_call("capset", header, bytes(24))


def _checked(name: str, result: int) -> int:
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
