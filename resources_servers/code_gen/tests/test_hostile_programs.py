"""Programs that try to get out, to go on for ever, or to take everything.

Each runs behind all the walls, and again behind those that remain on a machine without namespaces.
"""

import os
import platform
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from resources_servers.code_gen.tests.forbidden import FORBIDDEN
from resources_servers.code_gen.tests.running import (
    ALL_WALLS,
    WITHOUT_NAMESPACES,
    mark_processes,
    printed,
    run,
    wait_for,
)

both = pytest.mark.parametrize(
    "layers", [ALL_WALLS, WITHOUT_NAMESPACES], ids=["all walls", "without namespaces"]
)

# `attempt` prints what came of it, one line each.
ATTEMPT = """
def attempt(action, *arguments):
    try:
        result = action(*arguments)
        print("done", repr(result)[:200])
    except OSError as error:
        print("refused", error.errno)
"""


def refused(source: str, layers: tuple[str, ...]) -> None:
    """Assert that all that the program attempted was refused."""
    lines = printed(ATTEMPT + source, layers).splitlines()
    assert lines
    assert [line for line in lines if not line.startswith("refused")] == []


# Reaching the network


@both
def test_a_program_cannot_open_a_socket_of_any_family(layers: tuple[str, ...]) -> None:
    refused(
        """
import socket
for family in range(46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
        attempt(socket.socket, family, kind)
""",
        layers,
    )


@both
def test_a_program_cannot_reach_a_port_of_this_machine(layers: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused(f"import socket\nattempt(socket.create_connection, ('127.0.0.1', {port}))", layers)


@both
def test_a_socket_pair_leads_nowhere(layers: tuple[str, ...]) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        name = f"\0rollgym-{os.getpid()}"
        server.bind(name)
        server.setblocking(False)
        refused(
            f"""
import socket
attempt(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM)
one, other = socket.socketpair()
attempt(one.connect, {name!r})
attempt(one.sendto, b"out", {name!r})
attempt(one.bind, "\\0x")
""",
            layers,
        )
        with pytest.raises(BlockingIOError):
            server.recv(10)


# Reaching files


@both
def test_a_program_cannot_read_a_file_of_the_machine(layers: tuple[str, ...]) -> None:
    folder = Path(__file__).parents[1]
    paths = [
        "/etc/passwd",
        "/etc/hostname",
        "/proc/self/environ",
        "/proc/self/mem",
        "/proc/cpuinfo",
        "/dev/kmsg",
        "/dev/mem",
        "/dev/urandom",
        __file__,
        str(folder / "data" / "example.jsonl"),
        str(folder / "isolation" / "launcher.py"),
        f"/proc/{os.getpid()}/environ",
        f"/proc/{os.getpid()}/mem",
        f"/proc/{os.getpid()}/cmdline",
        f"/proc/{os.getpid()}/fd/0",
    ]
    refused(f"for path in {paths}:\n    attempt(open, path, 'rb')", layers)


@both
def test_a_program_cannot_list_the_folders_of_the_machine(layers: tuple[str, ...]) -> None:
    folders = ["/", "/etc", "/home", "/proc", "/tmp", str(Path.home()), str(Path.cwd())]
    refused(f"import os\nfor path in {folders}:\n    attempt(os.listdir, path)", layers)


@both
def test_no_link_and_no_detour_leads_to_a_file_of_the_machine(layers: tuple[str, ...]) -> None:
    refused(
        """
import os
attempt(open, "../etc/passwd")
attempt(open, "/usr/lib/../../etc/passwd")
attempt(open, "/proc/1/root/etc/passwd")
if os.getcwd() == "/scratch":
    os.symlink("/etc/passwd", "link")
    attempt(open, "link")
attempt(os.link, "/etc/passwd", "hard")
attempt(os.chroot, ".")
attempt(os.mkfifo, "fifo")
""",
        layers,
    )


@both
def test_a_program_cannot_write_outside_its_folder(layers: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    tmp_path.chmod(0o777)
    refused(
        f"""
import os, sys
attempt(open, {str(tmp_path / "new")!r}, "w")
attempt(open, {str(tmp_path / "there")!r}, "w")
attempt(os.truncate, {str(tmp_path / "there")!r}, 0)
attempt(os.unlink, {str(tmp_path / "there")!r})
attempt(os.rmdir, {str(tmp_path)!r})
for path in ("/x", "/tmp/x", "/dev/shm/x", "/usr/lib/x", os.path.dirname(os.__file__) + "/x.py"):
    attempt(open, path, "w")
attempt(open, os.__file__, "a")
attempt(os.unlink, os.__file__)
attempt(os.rename, os.__file__, "taken.py")
""",
        layers,
    )
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there").read_text() == "old"


def test_a_program_has_an_empty_folder_of_its_own_that_the_next_one_does_not_see() -> None:
    source = """
import os, tempfile
print(os.listdir("."))
open("notes", "w").write("mine")
print(open("notes").read(), len(tempfile.TemporaryFile().name and os.listdir(".")))
"""
    assert printed(source) == printed(source) == "[]\nmine 1\n"


@both
def test_a_program_inherits_no_variable(
    layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLICY_API_KEY", "secret-key")
    names = printed("import os\nprint(*sorted(os.environ))", layers).split()
    assert names == ["LC_ALL", "PYTHONHASHSEED"]


# Reaching processes


@both
def test_a_program_can_neither_start_nor_become_another(layers: tuple[str, ...]) -> None:
    refused(
        """
import os, subprocess, sys, pty
attempt(os.fork)
attempt(os.forkpty)
attempt(os.execv, "/bin/sh", ["sh"])
attempt(os.execv, sys.executable, ["python"])
attempt(os.posix_spawn, "/bin/sh", ["sh"], {})
attempt(subprocess.run, ["/bin/sh", "-c", "echo out"])
attempt(os.popen, "echo out")
attempt(os.setsid)
attempt(os.setpgid, 0, 0)
attempt(os.nice, -5)
""",
        layers,
    )


@both
def test_a_program_cannot_signal_anybody_but_itself(layers: tuple[str, ...]) -> None:
    refused(
        f"""
import fcntl, os, signal
for number in (0, signal.SIGTERM, signal.SIGKILL):
    attempt(os.kill, {os.getpid()}, number)
    attempt(os.kill, os.getppid(), number)
    attempt(os.kill, 0, number)
    attempt(os.kill, -1, number)
attempt(os.killpg, 0, signal.SIGTERM)
attempt(os.kill, os.getpid(), signal.SIGKILL)
attempt(signal.raise_signal, signal.SIGKILL)
attempt(signal.pthread_kill, __import__("threading").get_ident(), signal.SIGKILL)
attempt(os.pidfd_open, {os.getpid()})
readable, writable = os.pipe()
attempt(fcntl.fcntl, readable, fcntl.F_SETOWN, {os.getpid()})
attempt(fcntl.fcntl, readable, fcntl.F_SETSIG, signal.SIGKILL)
""",
        layers,
    )


@both
def test_the_kernel_refuses_every_dangerous_call_also_when_made_by_hand(
    layers: tuple[str, ...],
) -> None:
    column = {"x86_64": 0, "aarch64": 1}[platform.machine()]
    numbers = [numbers[column] for numbers in FORBIDDEN.values() if numbers[column] is not None]
    source = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for number in {numbers}:
    ctypes.set_errno(0)
    print(libc.syscall(number, 0, 0, 0, 0, 0, 0), ctypes.get_errno())
"""
    assert printed(source, layers).split("\n") == ["-1 1"] * len(numbers) + [""]


@both
def test_a_program_cannot_raise_its_limits(layers: tuple[str, ...]) -> None:
    refused(
        """
import resource
def lift(which, soft, hard):
    try:
        resource.setrlimit(which, (soft, hard))
    except ValueError as error:  # what Python makes of EPERM
        raise OSError(1, str(error))
for which in (resource.RLIMIT_CPU, resource.RLIMIT_AS, resource.RLIMIT_FSIZE):
    soft, hard = resource.getrlimit(which)
    attempt(lift, which, hard + 1, hard + 1)
    attempt(lift, which, resource.RLIM_INFINITY, resource.RLIM_INFINITY)
attempt(lift, resource.RLIMIT_CPU, 1, 1)
""",
        layers,
    )


def test_a_program_is_nobody_and_alone() -> None:
    source = "import os\nprint(os.getuid() == 0, os.getpid(), os.getppid(), os.getgroups())"
    lines = printed(source).split()
    assert lines[:3] == ["False", "1", "0"]


# Going on for ever


@both
def test_a_busy_program_is_stopped_by_its_processor_time(layers: tuple[str, ...]) -> None:
    source = """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
"""
    assert run(source, layers, cpu_seconds=1, wall_seconds=60).ending == "time_limit"


@both
def test_a_waiting_program_is_stopped_by_the_clock(
    layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases: Iterable[str] = [
        "import time\ntime.sleep(1000)",
        "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\nsignal.pause()",
        "import threading\nthreading.Thread(target=threading.Event().wait).start()",
        "import os\nr, w = os.pipe()\nos.read(r, 1)",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\nsignal.pause()",
        "import atexit, time\natexit.register(time.sleep, 1000)",
    ]
    for source in cases:
        mark = mark_processes(monkeypatch)
        assert run(source, layers, wall_seconds=0.5).ending == "time_limit"
        wait_for(0, mark)


@both
def test_a_program_cannot_make_itself_a_daemon(
    layers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = mark_processes(monkeypatch)
    source = """
import os, time
for leave in (os.fork, os.setsid, os.fork):
    try:
        if leave() not in (0, None):
            os._exit(0)
    except OSError:
        pass
for stream in range(3):
    os.close(stream)
time.sleep(1000)
"""
    assert run(source, layers, wall_seconds=0.5).ending == "time_limit"
    wait_for(0, mark)


# Taking everything


@both
def test_a_program_gets_no_more_memory_than_it_may_have(layers: tuple[str, ...]) -> None:
    cases: Iterable[str] = [
        "hoard = []\nwhile True: hoard.append('x' * 10**6)",
        "hoard = bytearray(10**11)",
        "hoard = 'x' * 10**11",
        "hoard = {}\nwhile True: hoard[len(hoard)] = [len(hoard)] * 1000",
    ]
    for source in cases:
        outcome = run(source, layers, memory_bytes=128 << 20, cpu_seconds=20)
        assert outcome.ending == "memory_limit"


def test_a_program_that_crashes_has_failed() -> None:
    cases: Iterable[str] = [
        "import mmap\nhoard = [mmap.mmap(-1, 1 << 24) for _ in range(1000)]",
        "import ctypes\nctypes.memset(0, 0, 10)",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(x): return [f(x)]\nsorted([1], key=f)",
        "exec('(' * 10**5)",
        "import os\nos.abort()",
    ]
    for source in cases:
        outcome = run(source, ALL_WALLS, memory_bytes=128 << 20)
        assert outcome.ending in {"failed", "memory_limit"}
        assert outcome.detail


@both
def test_a_program_that_prints_without_end_is_stopped(layers: tuple[str, ...]) -> None:
    cases: Iterable[str] = ["stdout", "stderr"]
    for stream in cases:
        source = f"import sys\nwhile True: sys.{stream}.write('x' * 10000)"
        outcome = run(source, layers, output_bytes=100_000)
        assert outcome.ending == "output_limit"
        assert max(len(outcome.answer), len(outcome.errors)) == 100_000


def test_a_program_cannot_fill_the_disk() -> None:
    source = """
import os
written = files = 0
for number in range(100_000):
    try:
        with open(str(number), "wb") as file:
            files += 1
            written += file.write(bytes(1 << 16))
    except OSError as error:
        reason = error.errno
        break
print(written <= 1 << 20, files < 2000, reason)
"""
    assert printed(source, scratch_bytes=1 << 20) == "True True 28\n"


def test_without_namespaces_there_is_nothing_to_write_to() -> None:
    refused("attempt(open, 'file', 'w')", WITHOUT_NAMESPACES)
    assert printed("print('x', file=open('/dev/null', 'w'))", WITHOUT_NAMESPACES) == ""


def test_a_program_cannot_start_threads_without_end() -> None:
    source = """
import threading
threading.stack_size(1 << 16)
stop, count = threading.Event(), 0
try:
    while count < 10_000:
        threading.Thread(target=stop.wait).start()
        count += 1
except RuntimeError:
    pass
stop.set()
print(0 < count < 100)
"""
    assert printed(source) == "True\n"


@both
def test_a_program_cannot_open_files_without_end(layers: tuple[str, ...]) -> None:
    source = "import os\ntry:\n    while True: last = os.dup(0)\nexcept OSError: print(last < 100)"
    assert printed(source, layers) == "True\n"


# What honest programs need

HONEST = {
    "reading at once": "import sys\nprint(sum(map(int, sys.stdin.read().split())))",
    "reading lines": "a, b = map(int, input().split())\nprint(a + b + int(input()))",
    "opening the input": "print(sum(map(int, open(0).read().split())))",
    "a thread": "from threading import Thread\nThread(target=lambda: print(6)).start()",
    "a pool of threads": """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(int, "123")))
""",
    "an event loop": """
import asyncio
async def main():
    await asyncio.sleep(0)
    print(6)
asyncio.run(main())
""",
    "deep recursion": """
import resource, sys
resource.setrlimit(resource.RLIMIT_STACK, (1 << 24, 1 << 24))
sys.setrecursionlimit(10**5)
def count(n):
    return n and 1 + count(n - 1)
print(count(10**4) - 9994)
""",
    "modules": """
import bisect, collections, datetime, decimal, fractions, functools, hashlib, heapq, itertools
import json, math, multiprocessing, random, re, socket, sqlite3, statistics, time, zlib, zoneinfo
time.sleep(0.01)
print(6)
""",
    "a class with annotations": """
from dataclasses import dataclass
@dataclass
class Point:
    x: int
print(Point(6).x)
""",
    "leaving by exit": "if __name__ == '__main__':\n    print(6)\nexit()",
    "leaving by quit": "print(6)\nquit(0)",
    "its own signals": """
import os, signal
signal.signal(signal.SIGUSR1, lambda *_: print(6))
os.kill(os.getpid(), signal.SIGUSR1)
""",
}


@both
def test_an_honest_program_notices_nothing(layers: tuple[str, ...]) -> None:
    cases: Iterable[str] = HONEST
    for need in cases:
        assert printed(HONEST[need], layers, stdin="1 2\n3\n") == "6\n"


def test_text_of_any_language_goes_in_and_out() -> None:
    assert (
        printed("print(input())", stdin="\u00fc \u6f22 \U0001f600\n")
        == "\u00fc \u6f22 \U0001f600\n"
    )


def test_the_same_program_gives_the_same_answer() -> None:
    source = "print({'a', 'b', 'c', 'd', 'e', 'f', 'g'})"
    assert printed(source) == printed(source)
