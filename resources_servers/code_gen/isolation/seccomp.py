"""Seccomp: the kernel rejects every system call that a computation does not need.

The filter is a program for the kernel's packet filter machine. It compares the number of the call
with each allowed number, then the arguments of the few calls that are allowed for some arguments
only. A call that is not allowed fails with EPERM.

*No processes.* `clone` is allowed for threads only. So no process outlives the program, no limit
multiplies by a number of processes, and the program cannot move to another group or session.

*No SIGKILL.* The program can neither send SIGKILL to itself nor lower its limit of processor time.
So if the server did not send a SIGKILL, the machine did.

*Tables.* Numbers are those of x86_64 and of aarch64; None if aarch64 does not have the call. The
calls in `ALLOWED` are harmless inside the other layers with any arguments. The calls in `NUMBERS`
are allowed for some arguments only. Sockets, starting and tracing processes, mounting, signals,
limits and memory of other processes, kernel keys and asynchronous rings are left out on purpose.
"""

from __future__ import annotations

import ctypes
import os

from resources_servers.code_gen.isolation import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_PERMITTED, _REFUSED, _KILLED = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_LOAD, _AND, _EQUAL, _GREATER, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
_SET_FILTER = 1

_NUMBER_OFFSET, _ARCHITECTURE_OFFSET, _ARGUMENTS_OFFSET = 0, 4, 16
_EVERY_BIT = 0xFFFFFFFF

_THREAD = 0x00010000 | 0x00000100  # CLONE_THREAD | CLONE_VM
_LOCAL_STREAM = (1, 1)  # AF_UNIX, SOCK_STREAM
_TYPE_BITS = 0xF
# Duplicating, flags, locks and the size of a pipe; not the owner that gets signals.
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)
# Whether it is a terminal and how large, bytes to read, (non-)blocking, close on execution.
_DEVICE_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_NAME_OPTIONS = (15, 16)
_CPU_LIMIT = 0

Instruction = tuple[int, int, int, int]


class ArgumentCondition:
    """A value that one argument must (not) have. `half` 1 compares the upper 32 bits."""

    def __init__(
        self,
        argument: int,
        value: int,
        *,
        bits: int = _EVERY_BIT,
        negated: bool = False,
        half: int = 0,
    ) -> None:
        self.offset = _ARGUMENTS_OFFSET + 8 * argument + 4 * half
        self.value = value
        self.bits = bits
        self.negated = negated


def install() -> None:
    """Filter the system calls of this process from now on. Raises OSError on other machines.

    `no_new_privs` has to be set already.
    """
    instructions = list(build(kernel.machine(), os.getpid()))
    code = b"".join(
        operation.to_bytes(2, "little") + bytes((if_true, if_false)) + value.to_bytes(4, "little")
        for operation, if_true, if_false, value in instructions
    )
    buffer = ctypes.create_string_buffer(code, len(code))
    program = len(instructions).to_bytes(2, "little") + bytes(6)
    program += ctypes.addressof(buffer).to_bytes(8, "little")
    kernel.system_call("seccomp", _SET_FILTER, 0, program)


def build(machine: str, process: int) -> Iterator[Instruction]:
    """The filter for a process of this number."""
    column, architecture = _ARCHITECTURES[machine]
    yield (_LOAD, 0, 0, _ARCHITECTURE_OFFSET)
    yield (_EQUAL, 1, 0, architecture)
    yield (_RETURN, 0, 0, _KILLED)
    yield (_LOAD, 0, 0, _NUMBER_OFFSET)
    for number in ALLOWED.values():
        yield from _allow(number[column])
    for name, conditions in _conditional(process):
        yield from _allow_if(NUMBERS[name], column, conditions)
    yield (_EQUAL, 1, 0, NUMBERS["clone3"][0])
    yield (_GREATER, 0, 1, LAST_KNOWN)
    yield (_RETURN, 0, 0, _REFUSED | _ENOSYS)
    yield (_RETURN, 0, 0, _REFUSED | _EPERM)


def _conditional(process: int) -> Iterator[tuple[str, list[ArgumentCondition]]]:
    """Calls with conditions on their arguments; of several conditions for a call one is enough."""
    yield "clone", [ArgumentCondition(0, _THREAD, bits=_THREAD)]
    yield (
        "kill",
        [ArgumentCondition(0, process), ArgumentCondition(1, kernel.SIGKILL, negated=True)],
    )
    yield (
        "tgkill",
        [ArgumentCondition(0, process), ArgumentCondition(2, kernel.SIGKILL, negated=True)],
    )
    family, kind = _LOCAL_STREAM
    yield "socketpair", [ArgumentCondition(0, family), ArgumentCondition(1, kind, bits=_TYPE_BITS)]
    myself, nothing_new = (
        ArgumentCondition(0, 0),
        [ArgumentCondition(2, 0), ArgumentCondition(2, 0, half=1)],
    )
    yield "prlimit64", [myself, *nothing_new]
    yield "prlimit64", [myself, ArgumentCondition(1, _CPU_LIMIT, negated=True)]
    for command in _DESCRIPTOR_COMMANDS:
        yield "fcntl", [ArgumentCondition(1, command)]
    for command in _DEVICE_COMMANDS:
        yield "ioctl", [ArgumentCondition(1, command)]
    for option in _NAME_OPTIONS:
        yield "prctl", [ArgumentCondition(0, option)]


def _allow(number: int | None) -> Iterator[Instruction]:
    if number is not None:
        yield (_EQUAL, 0, 1, number)
        yield (_RETURN, 0, 0, _PERMITTED)


def _allow_if(
    numbers: Number, column: int, conditions: list[ArgumentCondition]
) -> Iterator[Instruction]:
    """Allow a call under conditions, and load its number again for the next instructions."""
    number = numbers[column]
    if number is None:
        return
    # Each condition takes three instructions; the permission comes after the last one.
    yield (_EQUAL, 0, 3 * len(conditions) + 1, number)
    for position, condition in enumerate(conditions):
        to_the_end = 3 * (len(conditions) - position - 1) + 1
        yield (_LOAD, 0, 0, condition.offset)
        yield (_AND, 0, 0, condition.bits)
        if condition.negated:
            yield (_EQUAL, to_the_end, 0, condition.value)
        else:
            yield (_EQUAL, 0, to_the_end, condition.value)
    yield (_RETURN, 0, 0, _PERMITTED)
    yield (_LOAD, 0, 0, _NUMBER_OFFSET)


Number = tuple[int, int | None]

ALLOWED: dict[str, Number] = {
    # Reading, writing and waiting
    "read": (0, 63),
    "write": (1, 64),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "preadv": (295, 69),
    "pwritev": (296, 70),
    "preadv2": (327, 286),
    "pwritev2": (328, 287),
    "lseek": (8, 62),
    "close": (3, 57),
    "close_range": (436, 436),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "poll": (7, None),
    "ppoll": (271, 73),
    "select": (23, None),
    "pselect6": (270, 72),
    "epoll_create": (213, None),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441),
    "eventfd2": (290, 19),
    "sendfile": (40, 71),
    "copy_file_range": (326, 285),
    # The ends of a socket pair, which the event loop of asyncio wakes itself with
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "shutdown": (48, 210),
    "getsockname": (51, 204),
    "getsockopt": (55, 209),
    # Files
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "creat": (85, None),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents": (78, None),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "fchdir": (81, 50),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "umask": (95, 166),
    "utimensat": (280, 88),
    "truncate": (76, 45),
    "ftruncate": (77, 46),
    "fallocate": (285, 47),
    "fadvise64": (221, 223),
    "flock": (73, 32),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    # Memory
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "msync": (26, 227),
    "brk": (12, 214),
    "membarrier": (324, 283),
    # Threads and the end
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    "rseq": (334, 293),
    "arch_prctl": (158, None),
    "gettid": (186, 178),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "wait4": (61, 260),
    "waitid": (247, 95),
    "exit": (60, 93),
    "exit_group": (231, 94),
    # A program's own signals and clocks
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136),
    "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "pause": (34, None),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getitimer": (36, 102),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    # Who and where am I
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getpgrp": (111, None),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "getgroups": (115, 158),
    "getrusage": (98, 165),
    "getrlimit": (97, 163),
    "getcpu": (309, 168),
    "getrandom": (318, 278),
    "uname": (63, 160),
    "sysinfo": (99, 179),
}

NUMBERS: dict[str, Number] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "kill": (62, 129),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "socketpair": (53, 199),
    "tgkill": (234, 131),
}

# The last call known when these tables were written. A C library that tries a later one expects
# to hear that it does not exist, and then goes the old way.
LAST_KNOWN = 469
