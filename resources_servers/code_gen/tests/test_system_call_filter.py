"""The filter, interpreted here as the kernel would, for both architectures."""

from collections.abc import Iterable
from functools import cache

import pytest

from resources_servers.code_gen.isolation.seccomp import (
    ALLOWED,
    LAST_KNOWN,
    NUMBERS,
    Instruction,
    build,
)
from resources_servers.code_gen.tests.forbidden import FORBIDDEN

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386 = 0x40000003
X32_BIT = 0x40000000
PROCESS = 4711
THREAD_FLAGS = 0x3D0F00

machines = pytest.mark.parametrize("machine", ARCHITECTURES)


@cache
def filter_for(machine: str) -> list[Instruction]:
    return list(build(machine, PROCESS))


def interpret(instructions: list[Instruction], data: bytes) -> int:
    accumulator = position = 0
    while True:
        operation, if_true, if_false, value = instructions[position]
        position += 1
        match operation:
            case 0x20:
                accumulator = int.from_bytes(data[value : value + 4], "little")
            case 0x54:
                accumulator &= value
            case 0x15:
                position += if_true if accumulator == value else if_false
            case 0x25:
                position += if_true if accumulator > value else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


def decide(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = number.to_bytes(4, "little")
    data += (architecture or ARCHITECTURES[machine]).to_bytes(4, "little") + bytes(8)
    data += b"".join((word % (1 << 64)).to_bytes(8, "little") for word in words)
    return interpret(filter_for(machine), data)


def number_of(machine: str, name: str) -> int | None:
    return (ALLOWED | NUMBERS | FORBIDDEN)[name][machine == "aarch64"]


def decide_by_name(machine: str, name: str, *arguments: int) -> int:
    number = number_of(machine, name)
    assert number is not None
    return decide(machine, number, *arguments)


@machines
def test_what_computing_needs_is_allowed(machine: str) -> None:
    numbers = [number_of(machine, name) for name in ALLOWED]
    assert {decide(machine, number) for number in numbers if number is not None} == {ALLOW}


@machines
def test_everything_dangerous_is_refused(machine: str) -> None:
    cases: Iterable[str] = FORBIDDEN
    for name in cases:
        number = number_of(machine, name)
        if number is not None:
            assert decide(machine, number) == EPERM


@machines
def test_only_what_is_listed_is_ever_allowed(machine: str) -> None:
    listed = {number_of(machine, name) for name in ALLOWED | NUMBERS}
    for number in range(LAST_KNOWN + 1):
        if number not in listed:
            assert decide(machine, number) == EPERM


@machines
def test_calls_of_later_kernels_do_not_exist(machine: str) -> None:
    assert decide(machine, LAST_KNOWN + 1) == ENOSYS
    assert decide_by_name(machine, "clone3") == ENOSYS


def test_the_calls_of_other_architectures_are_no_way_around() -> None:
    assert decide("x86_64", 0, architecture=I386) == KILL
    assert decide("x86_64", 41 | X32_BIT) == ENOSYS
    assert decide("x86_64", 0 | X32_BIT) == ENOSYS


ARGUMENTS = [
    ("clone", (THREAD_FLAGS,), ALLOW),
    ("clone", (0x11,), EPERM),  # fork
    ("clone", (0x4111,), EPERM),  # vfork
    ("clone", (0x10000000 | 0x11,), EPERM),  # a new user namespace
    ("kill", (PROCESS, 15), ALLOW),
    ("kill", (PROCESS, 9), EPERM),
    ("kill", (1, 15), EPERM),
    ("kill", (0, 15), EPERM),
    ("kill", (-1, 15), EPERM),
    ("kill", (-PROCESS, 15), EPERM),
    ("tgkill", (PROCESS, 4712, 6), ALLOW),
    ("tgkill", (PROCESS, PROCESS, 9), EPERM),
    ("tgkill", (1, 1, 15), EPERM),
    ("socketpair", (1, 1), ALLOW),
    ("socketpair", (1, 1 | 0o2004000), ALLOW),  # non-blocking, close on execution
    ("socketpair", (1, 2), EPERM),  # datagrams could be sent to others
    ("socketpair", (1, 5), EPERM),
    ("socketpair", (2, 1), EPERM),
    ("prlimit64", (0, 3, 1234), ALLOW),
    ("prlimit64", (0, 0, 0), ALLOW),
    ("prlimit64", (0, 0, 1234), EPERM),  # its own processor time
    ("prlimit64", (0, 0, 1 << 40), EPERM),
    ("prlimit64", (1, 3, 0), EPERM),  # somebody else's limits
    ("fcntl", (0, 3), ALLOW),
    ("fcntl", (0, 1030, 10), ALLOW),
    ("fcntl", (0, 8, 1), EPERM),  # who gets its signals
    ("fcntl", (0, 10, 9), EPERM),  # which signal
    ("fcntl", (0, 15, 1), EPERM),
    ("fcntl", (0, 1026, 1), EPERM),
    ("ioctl", (0, 0x5401), ALLOW),
    ("ioctl", (0, 0x5412), EPERM),  # typing into the terminal
    ("ioctl", (0, 0x8901), EPERM),
    ("prctl", (15, 0), ALLOW),
    ("prctl", (1, 0), EPERM),  # outliving the launcher
    ("prctl", (22, 2), EPERM),
    ("prctl", (4, 1), EPERM),
]


@machines
def test_some_calls_are_allowed_for_some_arguments_only(machine: str) -> None:
    cases: Iterable[tuple[str, tuple[int, ...], int]] = ARGUMENTS
    for name, arguments, decision in cases:
        assert decide_by_name(machine, name, *arguments) == decision
