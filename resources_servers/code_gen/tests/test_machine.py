"""What the machine is found to have, as root, as nobody, and where it grants little."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from resources_servers.code_gen import sandbox
from resources_servers.code_gen.execution import ProgramLimits, SandboxError
from resources_servers.code_gen.isolation.confinement import LANDLOCK, NAMESPACES, SECCOMP
from resources_servers.code_gen.sandbox import LIMITS, Machine, Program, Sandbox, inspect_machine
from resources_servers.code_gen.tests.running import ALL_WALLS, WITHOUT_NAMESPACES, require_layers

SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = "65534"

as_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)


def interpreter(path: Path, *command: str) -> str:
    """An interpreter that is started in another way."""
    path.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_this_machine_keeps_programs_from_getting_out() -> None:
    require_layers(ALL_WALLS)
    machine = asyncio.run(inspect_machine())
    assert machine.layers == (LIMITS, NAMESPACES, LANDLOCK, SECCOMP)
    assert machine.safe
    assert str(machine) == "programs are isolated by limits, namespaces, landlock, seccomp"


def test_a_missing_layer_is_noticed_by_what_a_program_can_do() -> None:
    cases: Iterable[tuple[tuple[str, ...], set[str]]] = [
        ((), {"network", "files", "processes"}),
        ((NAMESPACES,), {"processes"}),
        ((LANDLOCK,), {"processes"}),
        ((SECCOMP,), {"files"}),
        (WITHOUT_NAMESPACES, set()),
        ((NAMESPACES, SECCOMP), set()),
    ]
    for layers, escapes in cases:
        require_layers(ALL_WALLS)
        found = asyncio.run(sandbox._escapes(Sandbox(layers)))
        # Later versions of Landlock refuse connections as well.
        assert found.keys() - {"network"} == escapes - {"network"}
        assert ("network" in found) == ("network" in escapes) or layers == (LANDLOCK,)


def test_what_is_missing_is_told() -> None:
    machine = Machine(
        (LIMITS,), {LANDLOCK: "no such call"}, {"files": "a program can read the files"}
    )
    assert not machine.safe
    assert str(machine) == (
        "a program can read the files (files); landlock does not work here (no such call)"
    )


def test_an_interpreter_that_does_not_work_is_a_fault(tmp_path: Path) -> None:
    broken = interpreter(tmp_path / "python", "false")
    with pytest.raises(SandboxError):
        asyncio.run(inspect_machine(broken))


@as_root
@pytest.mark.skipif(not Path(SYSTEM_PYTHON).exists(), reason="needs a Python that nobody can read")
def test_an_unprivileged_user_has_all_the_layers(tmp_path: Path) -> None:
    require_layers(ALL_WALLS)
    command = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", SYSTEM_PYTHON]
    python = interpreter(tmp_path / "python", *command)
    machine = asyncio.run(inspect_machine(python))
    assert machine.layers == (LIMITS, NAMESPACES, LANDLOCK, SECCOMP), machine.lacking
    assert machine.safe
    source = "import os\nprint(os.getuid(), os.getpid(), os.listdir('.'))\nopen('x', 'w').close()"
    run = asyncio.run(Sandbox(machine.layers, python=python).run(Program(source), ProgramLimits()))
    assert run.answer.decode() == f"{NOBODY} 1 []\n", run.errors


@as_root
def test_root_without_privileges_as_in_a_container_does_without_namespaces(tmp_path: Path) -> None:
    require_layers(ALL_WALLS)
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable]
    python = interpreter(tmp_path / "python", *command)
    machine = asyncio.run(inspect_machine(python))
    assert machine.layers == (LIMITS, LANDLOCK, SECCOMP)
    assert "unshare: Operation not permitted" in machine.lacking[NAMESPACES]
    assert machine.safe
    with pytest.raises(SandboxError, match="unshare: Operation not permitted"):
        asyncio.run(Sandbox(ALL_WALLS, python=python).run(Program("pass"), ProgramLimits()))
