"""What a server can be told, and how it says no."""

import subprocess
from argparse import ArgumentParser
from typing import Any

import pytest

from rollgym.servers.access import is_loopback
from tests.cases import for_each
from webgym.browser.command import configure
from webgym.browser.settings import (
    TOKEN_VARIABLE,
    BrowserSettings,
    BrowserSettingsError,
    default_capacity,
    read_settings,
    read_token,
)

TOKEN = "a-token"
NODE = {"role": "node", "master": "http://10.0.0.1:7000"}


def test_the_defaults_are_one_server_on_this_machine() -> None:
    settings = BrowserSettings()
    settings.check(None)
    assert (settings.role, settings.host, settings.bound_port) == ("both", "127.0.0.1", 7000)
    assert settings.accepts_nodes
    assert settings.has_browsers


def test_roles_have_their_ports() -> None:
    assert BrowserSettings(role="master").bound_port == 7000
    assert BrowserSettings(role="node").bound_port == 8080
    assert BrowserSettings(role="node", port=0).bound_port == 0


@for_each(
    ("given", "message"),
    [
        ({"role": "node"}, "a node needs its master: give --master"),
        ({"master": "http://10.0.0.1:7000"}, "--master is for nodes: add --role node"),
        ({**NODE, "master": "10.0.0.1:7000"}, "--master: '10.0.0.1:7000' is not the URL"),
        ({**NODE, "master": "http://10.0.0.1:7000/x"}, "is not the URL of a server"),
        ({**NODE, "master": "http://me:secret@10.0.0.1"}, "is not the URL of a server"),
        ({**NODE, "url": "http://[::1"}, "--url: 'http://[::1' is not the URL"),
        ({"allow_network": ("localhost",)}, "--allow-network localhost"),
        ({"capacity": 0}, "a setting is invalid: Expected `int` >= 1"),
        ({"role": "boss"}, "a setting is invalid: Invalid enum value 'boss'"),
    ],
)
def test_invalid_settings_are_rejected_with_the_reason(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BrowserSettingsError) as raised:
        read_settings(given, TOKEN)
    assert message in str(raised.value)
    assert raised.value.is_misuse


@for_each("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_listening_for_other_machines_needs_a_token(host: str) -> None:
    with pytest.raises(BrowserSettingsError, match="set CPU_CLUSTER_TOKEN") as raised:
        BrowserSettings(host=host).check(None)
    BrowserSettings(host=host).check(TOKEN)
    command = str(raised.value).partition("clients: ")[2]
    made = subprocess.run(
        ["bash", "-c", f'{command}; printf %s "${TOKEN_VARIABLE}"'],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(made.stdout) == 43


def test_a_token_that_no_header_can_hold_is_refused() -> None:
    with pytest.raises(BrowserSettingsError, match="not allowed in an HTTP header"):
        BrowserSettings().check("sch\nlüssel")


def test_the_token_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, " secret\n")
    assert read_token() == "secret"
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    assert read_token() is None
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert read_token() is None


@for_each("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_is_known(host: str) -> None:
    assert is_loopback(host)


def test_lifetimes_are_bounded() -> None:
    settings = BrowserSettings(lifetime_mins=60, longest_lifetime_mins=90)
    assert settings.lifetime_of(None) == 60
    assert settings.lifetime_of(5) == 5
    assert settings.lifetime_of(1000) == 90


def test_as_many_sessions_as_the_machine_carries() -> None:
    assert 1 <= default_capacity() <= 64
    assert BrowserSettings().sessions == default_capacity()
    assert BrowserSettings(capacity=7).sessions == 7


def test_every_option_of_the_command_is_a_setting() -> None:
    parser = ArgumentParser()
    configure(parser)
    options = vars(parser.parse_args(["serve"])).keys() - {"action"}
    assert options <= set(BrowserSettings.__struct_fields__)


@for_each(
    "arguments",
    [["--port", "70000"], ["--capacity", "0"], ["--wait-seconds", "nan"], ["--idle-seconds", "-1"]],
)
def test_nonsense_on_the_command_line_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    parser = ArgumentParser()
    configure(parser)
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["serve", *arguments])
    assert arguments[1] in capsys.readouterr().err


@for_each(
    ("capacity", "per_browser", "browsers"), [(1, 16, 1), (16, 16, 1), (17, 16, 2), (64, 16, 4)]
)
def test_there_are_as_many_browsers_as_the_capacity_needs(
    capacity: int, per_browser: int, browsers: int
) -> None:
    settings = BrowserSettings(capacity=capacity, sessions_per_browser=per_browser)
    assert settings.most_browsers == browsers
