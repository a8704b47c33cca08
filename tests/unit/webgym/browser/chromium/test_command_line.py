"""The command line of a browser, and when it has to do without a sandbox."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cases import for_each
from webgym.browser.chromium import command_line as command_line_module
from webgym.browser.chromium.command_line import command_line
from webgym.browser.chromium.executable import Browser
from webgym.browser.guard.guard import GUARDED_FLAGS

SHELL = Browser(Path("/opt/headless-shell"), version="150.0.7000.12")
FULL = Browser(Path("/opt/chrome"), "full", version="150.0.7000.12")
PROFILE = Path("/profiles/one")


@pytest.fixture
def an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(command_line_module, "_has_user_namespaces", lambda: True)


def test_it_is_driven_over_the_pipe_on_its_own_profile() -> None:
    line = command_line(SHELL, PROFILE)

    assert line[0] == "/opt/headless-shell"
    assert "--remote-debugging-pipe" in line
    assert "--user-data-dir=/profiles/one" in line
    assert not [flag for flag in line if flag.startswith("--remote-debugging-port")]


def test_all_arguments_are_flags_and_none_is_given_twice() -> None:
    """Of a flag that is given twice Chromium reads the last: the first would be lost."""
    names = [flag.partition("=")[0] for flag in command_line(FULL, PROFILE)[1:]]

    assert all(name.startswith("--") for name in names)
    assert len(names) == len(set(names))


def test_a_full_browser_is_started_without_a_window() -> None:
    assert "--headless=new" in command_line(FULL, PROFILE)
    assert "--headless" in command_line(SHELL, PROFILE)


def test_nothing_goes_around_the_guard() -> None:
    assert set(GUARDED_FLAGS) <= set(command_line(SHELL, PROFILE))


def test_pages_do_not_see_that_the_browser_is_headless() -> None:
    line = command_line(SHELL, PROFILE)

    (told,) = [flag for flag in line if flag.startswith("--user-agent=")]
    assert "Chrome/150.0.0.0 Safari" in told
    assert "Headless" not in told


def test_a_browser_of_unknown_version_speaks_for_itself() -> None:
    line = command_line(Browser(Path("/opt/headless-shell")), PROFILE)

    assert not [flag for flag in line if flag.startswith("--user-agent")]


@pytest.mark.usefixtures("an_ordinary_user")
def test_an_ordinary_user_keeps_the_sandbox() -> None:
    assert "--no-sandbox" not in command_line(SHELL, PROFILE)


@pytest.mark.usefixtures("an_ordinary_user")
def test_root_has_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert "--no-sandbox" in command_line(SHELL, PROFILE)


@pytest.mark.usefixtures("an_ordinary_user")
def test_without_user_namespaces_there_is_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_line_module, "_has_user_namespaces", lambda: False)

    assert "--no-sandbox" in command_line(SHELL, PROFILE)


@pytest.mark.usefixtures("an_ordinary_user")
@for_each(("mode", "owner", "helps"), [(0o104755, 0, True), (0o100755, 0, False)])
def test_the_browsers_own_helper_makes_up_for_user_namespaces(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int, owner: int, helps: bool
) -> None:
    monkeypatch.setattr(command_line_module, "_has_user_namespaces", lambda: False)
    monkeypatch.setattr(Path, "exists", lambda path: path.name == "chrome-sandbox")
    monkeypatch.setattr(Path, "stat", lambda _path: SimpleNamespace(st_mode=mode, st_uid=owner))

    assert command_line_module.sandbox_is_possible(tmp_path / "chrome") is helps


def test_other_systems_have_a_sandbox_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")

    assert command_line_module.sandbox_is_possible(SHELL.path)


@for_each(("blocks", "small"), [(16_384, True), (1_000_000, False)])
def test_where_shared_memory_is_small_it_is_not_used(
    monkeypatch: pytest.MonkeyPatch, blocks: int, small: bool
) -> None:
    found = SimpleNamespace(f_frsize=4096, f_bavail=blocks)
    monkeypatch.setattr(os, "statvfs", lambda _path: found)

    assert ("--disable-dev-shm-usage" in command_line(SHELL, PROFILE)) is small


def test_where_there_is_no_shared_memory_it_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(command_line_module, "SHARED_MEMORY", tmp_path / "none")

    assert "--disable-dev-shm-usage" in command_line(SHELL, PROFILE)
