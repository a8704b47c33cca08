"""Running programs in tests, and finding the processes they leave behind."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from resources_servers.code_gen import execution
from resources_servers.code_gen.execution import ProgramLimits, ProgramRun, SandboxError
from resources_servers.code_gen.isolation.confinement import LANDLOCK, NAMESPACES, SECCOMP
from resources_servers.code_gen.sandbox import Machine, Program, Sandbox, inspect_machine

ALL_WALLS = (NAMESPACES, LANDLOCK, SECCOMP)
WITHOUT_NAMESPACES = (LANDLOCK, SECCOMP)
_machines: list[Machine] = []


def require_layers(layers: Sequence[str]) -> None:
    """Skip the test where the machine does not have them."""
    if not _machines:
        try:
            _machines.append(asyncio.run(inspect_machine()))
        except SandboxError as error:
            pytest.skip(str(error))
    lacking = [_machines[0].lacking[layer] for layer in layers if layer in _machines[0].lacking]
    if lacking:
        pytest.skip("; ".join(lacking))


def run(source: str, layers: Sequence[str] = ALL_WALLS, **settings: Any) -> ProgramRun:
    """Run a program; settings are fields of Program and of ProgramLimits."""
    require_layers(layers)
    limits = {
        name: settings.pop(name) for name in ProgramLimits.__struct_fields__ if name in settings
    }
    program = Program(source, **settings)
    return asyncio.run(Sandbox(layers).run(program, ProgramLimits(**limits)))


def printed(source: str, layers: Sequence[str] = ALL_WALLS, **settings: Any) -> str:
    """What a program prints that ends well."""
    outcome = run(source, layers, **settings)
    assert outcome.ending == "finished", outcome.errors.decode()
    return outcome.answer.decode()


def mark_processes(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make the processes of all further runs recognisable, by a word on their command line."""
    mark = f"mark-{uuid4().hex}"
    flags = (*execution._FLAGS, "-X", mark)
    monkeypatch.setattr(execution, "_FLAGS", flags)
    return mark


def marked(mark: str) -> list[int]:
    """The living processes with this mark, the oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile
    return sorted(found)


def wait_for(count: int, mark: str, seconds: float = 20.0) -> list[int]:
    """Wait until so many marked processes live."""
    deadline = time.monotonic() + seconds
    while len(marked(mark)) != count:
        assert time.monotonic() < deadline, f"{len(marked(mark))} processes instead of {count}"
        time.sleep(0.01)
    return marked(mark)
