"""Seccomp: the kernel itself refuses every system call that computing does not need.

The filter is a program for the kernel's packet filter machine: it compares the number of the call
with each allowed one, then the arguments of the few that are allowed for some arguments only.
Whatever is not allowed fails with EPERM; a program that cannot live with that ends by itself.

*No processes.* `clone` is allowed for threads only. So nothing can outlive the program, no limit
has to be multiplied by a number of processes, and there is no group or session to run away to.

*No way to die by SIGKILL.* The program can neither send it to itself nor lower its own limit of
processor time. So a SIGKILL that nobody here sent is the machine's doing, never the program's.
"""

from __future__ import annotations

import ctypes
import os

from resources_servers.code_gen.jail import kernel
from resources_servers.code_gen.jail.system_calls import ALLOWED, LAST_KNOWN, NUMBERS, Number

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
# Duplicating, flags, locks and the size of a pipe; not the owner who gets its signals.
_DESCRIPTOR_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)
# Whether it is a terminal and how large, bytes to read, (non-)blocking, close on execution.
_DEVICE_COMMANDS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_NAME_OPTIONS = (15, 16)
_CPU_LIMIT = 0

Instruction = tuple[int, int, int, int]


class Condition:
    """What one argument must (not) be. Only its lower half counts, unless `half` is 1."""

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
    """Filter the calls of this process from now on. Raises OSError where that cannot be had.

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


def _conditional(process: int) -> Iterator[tuple[str, list[Condition]]]:
    """Calls with what their arguments must be; any one of several lines with a name will do."""
    yield "clone", [Condition(0, _THREAD, bits=_THREAD)]
    yield "kill", [Condition(0, process), Condition(1, kernel.SIGKILL, negated=True)]
    yield "tgkill", [Condition(0, process), Condition(2, kernel.SIGKILL, negated=True)]
    family, kind = _LOCAL_STREAM
    yield "socketpair", [Condition(0, family), Condition(1, kind, bits=_TYPE_BITS)]
    myself, nothing_new = Condition(0, 0), [Condition(2, 0), Condition(2, 0, half=1)]
    yield "prlimit64", [myself, *nothing_new]
    yield "prlimit64", [myself, Condition(1, _CPU_LIMIT, negated=True)]
    for command in _DESCRIPTOR_COMMANDS:
        yield "fcntl", [Condition(1, command)]
    for command in _DEVICE_COMMANDS:
        yield "ioctl", [Condition(1, command)]
    for option in _NAME_OPTIONS:
        yield "prctl", [Condition(0, option)]


def _allow(number: int | None) -> Iterator[Instruction]:
    if number is not None:
        yield (_EQUAL, 0, 1, number)
        yield (_RETURN, 0, 0, _PERMITTED)


def _allow_if(numbers: Number, column: int, conditions: list[Condition]) -> Iterator[Instruction]:
    """Leaves the number of the call loaded for what comes next."""
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
