"""What a browser says of itself."""

import platform
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cases import for_each
from webgym.browser.chromium.command_line import identity, user_agent
from webgym.browser.chromium.executable import Browser

VERSION = "150.0.7000.12"
SHELL = Browser(Path("/opt/headless-shell"), version=VERSION)
FULL = Browser(Path("/opt/chrome"), "full", version=VERSION)


def hints(version: str) -> dict[str, Any]:
    told = identity(Browser(SHELL.path, version=version))
    assert told is not None
    return msgspec.convert(told["userAgentMetadata"], dict[str, Any])


def test_the_user_agent_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Macintosh" in user_agent(VERSION)
    monkeypatch.setattr(sys, "platform", "linux")
    assert "Linux" in user_agent(VERSION)


def test_both_ways_to_ask_have_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    told = identity(SHELL)
    assert told is not None
    assert told["userAgent"] == user_agent(VERSION)
    about = hints(VERSION)
    assert {"brand": "Chromium", "version": "150"} in about["brands"]
    assert {"brand": "Chromium", "version": VERSION} in about["fullVersionList"]
    assert (about["platform"], about["architecture"], about["bitness"]) == ("Linux", "x86", "64")
    assert about["mobile"] is False
    assert "Headless" not in str(told)


def test_a_mac_is_one_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("15.1", ("", "", ""), "arm64"))
    about = hints(VERSION)
    assert (about["platform"], about["platformVersion"]) == ("macOS", "15.1")
    assert about["architecture"] == "arm"


@for_each(
    ("version", "brands"),
    [
        ("156.0.8078.79", [("Not:A-Brand", "8"), ("Chromium", "156")]),
        ("131.0.6778.85", [("Chromium", "131"), ("Not_A Brand", "24")]),
        ("124.0.6367.60", [("Not-A.Brand", "99"), ("Chromium", "124")]),
    ],
)
def test_the_brand_that_is_made_up_is_the_one_of_the_version(
    version: str, brands: list[tuple[str, str]]
) -> None:
    told = [(each["brand"], each["version"]) for each in hints(version)["brands"]]
    assert told == brands
    whole = {each["brand"]: each["version"] for each in hints(version)["fullVersionList"]}
    assert whole["Chromium"] == version
    assert all(len(number.split(".")) == 4 for number in whole.values())


def test_a_browser_that_needs_no_help_speaks_for_itself() -> None:
    assert identity(FULL) is None
    assert identity(Browser(SHELL.path)) is None
