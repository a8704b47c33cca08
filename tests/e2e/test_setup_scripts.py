"""The set-up scripts, run for real in a copy of the clone, without a network.

PATH holds the few tools that the scripts use and no Python, so what a script finds is what the
test put there. Where packages are installed a stand-in for uv takes the request: it makes real
virtual environments, and writes down what it was asked to install.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = ["bash", "cat", "cut", "dirname", "env", "find", "grep", "id", "mkdir", "mv", "rm", "sed"]
TOOLS += ["sleep", "tail"]
SCRIPTS = [*sorted((REPOSITORY / "scripts").glob("*.sh")), REPOSITORY / ".ci/run"]

UV = f"""#!/usr/bin/env bash
case $1 in
    venv) exec {sys.executable!r} -m venv --without-pip "${{@: -1}}" ;;
    pip) echo "$*" >>"$INSTALLS"; sleep "${{INSTALL_SECONDS:-0}}" ;;
esac
"""

FAILING_PIP = """
import sys
if "install" in sys.argv:
    for number in range(100):
        print("noise", number)
    print("ERROR: Could not find a version that satisfies the requirement")
    for number in range(100):
        print("noise", number)
    sys.exit(1)
"""


class Clone:
    """A copy of the scripts in a folder with a space in its name, and the PATH to run them with."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a clone"
        self.venv = self.root / ".venv"
        self.bin = folder / "bin"
        self.installs = folder / "installs"
        shutil.copytree(REPOSITORY / "scripts", self.root / "scripts")
        (self.root / "pyproject.toml").write_text("[project]\n")
        self.bin.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)

    def start(self, script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.root / "scripts" / script, *arguments],
            cwd=self.bin,
            env={"PATH": str(self.bin), "INSTALLS": str(self.installs)} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
        """Runs a script to its end: exit status, stdout, stderr."""
        with self.start(script, *arguments, **environment) as process:
            stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr

    def put(self, path: Path, text: str) -> None:
        """Writes a program."""
        path.write_text(text)
        path.chmod(0o755)

    def put_uv(self) -> None:
        self.put(self.bin / "uv", UV)

    def installed(self) -> list[str]:
        """What the stand-in for uv was asked to install, in order."""
        if not self.installs.exists():
            return []
        return [line.split(" -e ")[1] for line in self.installs.read_text().splitlines()]


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


@pytest.fixture
def ready(clone: Clone) -> Clone:
    """A clone that is set up with the base packages, and has forgotten how that came about."""
    clone.put_uv()
    assert clone.run("setup.sh", "base", PYTHON=sys.executable)[0] == 0
    (clone.bin / "uv").unlink()
    clone.installs.unlink()
    return clone


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_every_script_is_executable_and_parses(script: Path) -> None:
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", script], check=True)


def test_a_python_that_is_too_old_is_named_with_what_to_do(clone: Clone) -> None:
    clone.put(clone.bin / "python3", "#!/bin/sh\necho 3.9.6 /usr/bin/python3\nexit 1\n")

    status, stdout, stderr = clone.run("demo.sh")

    assert (status, stdout) == (1, "")
    assert "needs Python 3.11 or newer" in stderr
    assert f"Found: {clone.bin}/python3 (3.9.6)." in stderr
    assert "PYTHON=" in stderr
    assert not clone.venv.exists()


def test_without_any_python_the_message_says_none_was_found(clone: Clone) -> None:
    status, _, stderr = clone.run("test.sh")

    assert status == 1
    assert "Found: none." in stderr


def test_a_newer_python_further_down_the_path_is_found(clone: Clone) -> None:
    clone.put_uv()
    clone.put(clone.bin / "python3", "#!/bin/sh\necho 3.9.6 /usr/bin/python3\nexit 1\n")
    clone.put(clone.bin / "python3.11", f'#!/bin/sh\nexec {sys.executable!r} "$@"\n')

    status, _, stderr = clone.run("setup.sh", "dev")

    assert status == 0, stderr
    assert clone.installed() == [".[dev]"]


def test_a_matching_stamp_skips_the_set_up(ready: Clone) -> None:
    assert ready.run("setup.sh", "base") == (0, "", "")


def test_the_demo_runs_in_the_callers_folder_with_the_callers_arguments(ready: Clone) -> None:
    for name in ("rollgym", "ng_collect_rollouts"):
        ready.put(ready.venv / "bin" / name, '#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n')

    status, stdout, _ = ready.run("demo.sh", "--name", "two words")

    assert status == 0
    lines = stdout.splitlines()
    assert lines[:4] == [str(ready.bin), "demo", "--name", "two words"]
    assert lines[4] == str(ready.bin)
    assert "+num_repeats=2" in lines[5:]


def test_a_changed_pyproject_is_installed_again(ready: Clone) -> None:
    ready.put_uv()
    (ready.root / "pyproject.toml").write_text("[project]\n# changed\n")

    assert ready.run("setup.sh", "base", PYTHON=sys.executable)[0] == 0

    assert ready.installed() == ["."]


def test_dev_packages_are_added_once_and_kept(ready: Clone) -> None:
    ready.put_uv()

    for wanted in ("dev", "base", "dev"):
        assert ready.run("setup.sh", wanted, PYTHON=sys.executable)[0] == 0
    assert ready.installed() == [".[dev]"]

    (ready.root / "pyproject.toml").write_text("[project]\n# changed\n")
    assert ready.run("setup.sh", "base", PYTHON=sys.executable)[0] == 0
    assert ready.installed() == [".[dev]", ".[dev]"]


def test_an_environment_whose_python_is_gone_is_made_again(ready: Clone) -> None:
    ready.put_uv()
    for python in ready.venv.glob("bin/python*"):
        python.unlink()
        python.symlink_to("/nonexistent/python")

    status, _, stderr = ready.run("setup.sh", "base", PYTHON=sys.executable)

    assert status == 0, stderr
    assert "Setting up .venv" in stderr
    subprocess.run([ready.venv / "bin/python", "-c", ""], check=True)


def test_an_environment_whose_set_up_was_killed_is_made_again(clone: Clone) -> None:
    clone.put_uv()
    with clone.start("setup.sh", "dev", PYTHON=sys.executable, INSTALL_SECONDS="2") as first:
        deadline = time.monotonic() + 30
        while not clone.installed() and time.monotonic() < deadline:
            time.sleep(0.02)
        (clone.venv / "left-behind").touch()
        first.kill()

    status, _, stderr = clone.run("setup.sh", "dev", PYTHON=sys.executable)

    assert status == 0, stderr
    assert not (clone.venv / "left-behind").exists()
    assert clone.run("setup.sh", "dev") == (0, "", "")


def test_two_set_ups_at_once_install_once(clone: Clone) -> None:
    clone.put_uv()
    options = {"PYTHON": sys.executable, "INSTALL_SECONDS": "0.5"}

    with (
        clone.start("setup.sh", "dev", **options) as one,
        clone.start("setup.sh", "dev", **options) as other,
    ):
        said = one.communicate(timeout=60)[1] + other.communicate(timeout=60)[1]

    assert (one.returncode, other.returncode) == (0, 0), said
    assert "Waiting for another set-up" in said
    assert clone.installed() == [".[dev]"]


def test_a_moved_clone_is_set_up_again(ready: Clone) -> None:
    ready.put_uv()
    ready.root = ready.root.rename(ready.root.with_name("moved"))

    status, _, stderr = ready.run("setup.sh", "base", PYTHON=sys.executable)

    assert status == 0, stderr
    assert "Setting up .venv" in stderr


def test_a_failed_install_says_what_to_do_and_leaves_what_worked(ready: Clone) -> None:
    site_packages = next(ready.venv.glob("lib/python*/site-packages"))
    (site_packages / "pip").mkdir()
    (site_packages / "pip/__main__.py").write_text(FAILING_PIP)

    status, stdout, stderr = ready.run("setup.sh", "dev", PYTHON=sys.executable)

    assert (status, stdout) == (1, "")
    assert "ERROR: Could not find a version" in stderr
    assert "check the network" in stderr
    assert len(stderr.splitlines()) < 12
    assert "noise 99" in (ready.venv / "setup.log").read_text()
    assert ready.run("setup.sh", "base") == (0, "", "")


def test_an_environment_made_by_hand_is_installed_into(clone: Clone) -> None:
    clone.put_uv()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone.venv], check=True)
    (clone.venv / "mine").touch()

    assert clone.run("setup.sh", "base", PYTHON=sys.executable)[0] == 0

    assert (clone.venv / "mine").exists()
    assert clone.installed() == ["."]
