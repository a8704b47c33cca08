"""Which browser is found. The browsers are scripts that tell a version."""

import sys
from pathlib import Path

import pytest

from webgym.browser.chromium import executable
from webgym.browser.chromium.executable import (
    BROWSER_VARIABLE,
    Browser,
    NoBrowserError,
    find_browser,
)

MODERN = "Chromium 150.0.7000.12 built on Debian"


class Machine:
    """A machine without any browser but those that a test puts on it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = folder / "home"
        self.prefix = folder / "venv"
        self.usr = folder / "usr"
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("PATH", str(self.usr / "bin"))
        monkeypatch.setattr(sys, "prefix", str(self.prefix))
        monkeypatch.setattr(sys, "platform", "linux")
        for name in (BROWSER_VARIABLE, "PLAYWRIGHT_BROWSERS_PATH"):
            monkeypatch.delenv(name, raising=False)

    def put(self, path: Path, script: str = f"echo {MODERN}") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def put_on_path(self, name: str, script: str = f"echo {MODERN}") -> Path:
        return self.put(self.usr / "bin" / name, script)

    def put_playwright(self, inside: str) -> Path:
        return self.put(self.home / ".cache/ms-playwright" / inside)

    def put_program(self, path: Path) -> Path:
        """A browser that is no script. It cannot be run, so it is not asked for its version."""
        self._monkeypatch.setattr(executable, "_ask_version", lambda _path: MODERN)
        self.put(path).write_bytes(b"\x7fELF")
        return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_headless_shell_on_path_is_found_with_its_version(machine: Machine) -> None:
    path = machine.put_on_path("chromium-headless-shell")
    machine.put_on_path("chromium")

    assert find_browser() == Browser(
        path, "headless-shell", "chromium-headless-shell on PATH", "150.0.7000.12"
    )


def test_the_better_browser_wins_wherever_it_is_from(machine: Machine) -> None:
    """From the worst to the best: each one that is added is the one that is found."""
    playwright = machine.home / ".cache/ms-playwright"
    for path in (
        machine.usr / "bin/google-chrome",
        machine.usr / "bin/chromium",
        playwright / "chromium_headless_shell-1190/chrome-linux/headless_shell",
        playwright / "chromium_headless_shell-1200/chrome-linux64/chrome-headless-shell",
        machine.prefix / "browser/unpacked/chrome-headless-shell",
        machine.usr / "bin/chrome-headless-shell",
        machine.usr / "bin/chromium-headless-shell",
    ):
        machine.put(path)
        assert find_browser().path == path


def test_the_newest_revision_counts_as_a_number(machine: Machine) -> None:
    newest = machine.put_playwright("chromium-1000/chrome-linux/chrome")
    machine.put_playwright("chromium-999/chrome-linux/chrome")

    found = find_browser()

    assert (found.path, found.kind) == (newest, "full")
    assert found.source == "installed by Playwright"


def test_playwrights_own_variable_says_where_its_browsers_are(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put_playwright("chromium_headless_shell-2/linux/chrome-headless-shell")
    elsewhere = tmp_path / "elsewhere/chromium_headless_shell-1/linux/chrome-headless-shell"
    machine.put(elsewhere)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "elsewhere"))

    assert find_browser().path == elsewhere


def test_a_user_without_a_home_folder_can_find_a_browser(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> Path:
        raise RuntimeError(f"no home for {path}")

    monkeypatch.setattr(Path, "expanduser", fail)
    path = machine.put_on_path("chromium")

    assert find_browser().path == path


@pytest.mark.parametrize("name", ["chromium", "chromium-headless-shell"])
def test_the_program_behind_a_distributions_script_is_taken(machine: Machine, name: str) -> None:
    machine.put_on_path(name, 'exec something "$@"')
    program = machine.put_program(machine.usr / "lib/chromium" / name)

    assert find_browser().path == program


def test_the_program_behind_googles_script_is_taken(machine: Machine) -> None:
    script = machine.put(machine.usr.parent / "opt/google/chrome/google-chrome")
    program = machine.put_program(script.with_name("chrome"))
    (machine.usr / "bin").mkdir(parents=True)
    (machine.usr / "bin/google-chrome").symlink_to(script)

    assert find_browser().path == program


def test_a_script_with_nothing_plain_behind_it_is_run_itself(machine: Machine) -> None:
    script = machine.put_on_path("chromium")
    machine.put(machine.usr / "lib/chromium/chromium", "exit 1")

    assert find_browser().path == script


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo libnss3.so: cannot open >&2; exit 127", "does not run: libnss3.so: cannot open"),
        ("echo Chromium 99.0.4844.51", "is version 99.0.4844.51, older than 120"),
        ("echo hello", "is not a Chromium: `--version` prints 'hello'"),
        ("exec /snap/bin/chromium", "is a snap"),
    ],
)
def test_what_cannot_be_used_is_passed_over_and_told_if_nothing_else_is_there(
    machine: Machine, script: str, reason: str
) -> None:
    path = machine.put_on_path("chromium-headless-shell", script)

    with pytest.raises(NoBrowserError) as raised:
        find_browser()
    assert f"Skipped: {path} (chromium-headless-shell on PATH) {reason}" in str(raised.value)

    usable = machine.put_on_path("chromium")
    assert find_browser().path == usable


def test_a_browser_that_does_not_answer_is_passed_over(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executable, "VERSION_TIMEOUT", 0.1)
    machine.put_on_path("chromium", "exec /bin/sleep 60")

    with pytest.raises(NoBrowserError, match="timed out"):
        find_browser()


def test_without_any_browser_the_error_says_what_was_looked_for_and_how_to_get_one(
    machine: Machine,
) -> None:
    with pytest.raises(NoBrowserError) as raised:
        find_browser()

    for words in (
        "chromium-headless-shell, chrome-headless-shell, chromium",
        str(machine.prefix / "browser"),
        "scripts/setup.sh browser",
        "apt-get install chromium-headless-shell",
        "playwright install --only-shell chromium",
        BROWSER_VARIABLE,
    ):
        assert words in str(raised.value)


def test_the_variable_wins_over_what_is_found_and_the_setting_over_both(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.put_on_path("chromium-headless-shell")
    mine, other = machine.put(tmp_path / "mine"), machine.put(tmp_path / "other-headless")
    monkeypatch.setenv(BROWSER_VARIABLE, str(mine))

    by_variable, by_setting = find_browser(), find_browser(other)

    assert (by_variable.path, by_variable.kind) == (mine, "full")
    assert by_variable.source == f"the environment variable {BROWSER_VARIABLE}"
    assert (by_setting.path, by_setting.kind) == (other, "headless-shell")


def test_a_name_on_path_and_a_home_can_be_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = machine.put_on_path("chromium-dev")
    at_home = machine.put(machine.home / "chrome")

    assert find_browser("chromium-dev").path == named
    monkeypatch.setenv(BROWSER_VARIABLE, "~/chrome")
    assert find_browser().path == at_home


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "is not a program that can be run"),
        ("echo broken >&2; exit 1", "does not run: broken"),
    ],
)
def test_a_wrong_one_is_an_error_that_names_it_although_others_are_there(
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str | None,
    reason: str,
) -> None:
    machine.put_on_path("chromium-headless-shell")
    wrong = tmp_path / "wrong"
    if script is not None:
        machine.put(wrong, script)

    with pytest.raises(NoBrowserError) as raised:
        find_browser(wrong)
    assert str(raised.value) == f"the setting `browser` says {wrong}, which {reason}"

    monkeypatch.setenv(BROWSER_VARIABLE, str(wrong))
    with pytest.raises(NoBrowserError) as raised:
        find_browser()
    assert (
        str(raised.value)
        == f"the environment variable {BROWSER_VARIABLE} says {wrong}, which {reason}"
    )
