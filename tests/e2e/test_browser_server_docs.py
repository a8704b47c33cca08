"""What the page on the browser server shows is so."""

import re
import shutil
from argparse import ArgumentParser, _SubParsersAction
from pathlib import Path

import pytest

from tests.e2e.test_docs import DOCS, code_blocks, names_in, run_script, table
from tests.ports import free_port
from webgym.browser.command import configure
from webgym.browser.contract.commands import COMMANDS
from webgym.browser.contract.errors import WIRE_ERRORS
from webgym.browser.routes import ROUTES
from webgym.browser.settings import BrowserSettings

PAGE = "browser-server.md"
CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    script = "\n".join(code_blocks(DOCS / PAGE, "bash"))
    server, sites = free_port(), free_port()
    for shown, here in (
        ("browser serve", f"browser serve --port {server}"),
        ("sites serve", f"sites serve --port {sites}"),
        ("browser status", f"browser status --url http://127.0.0.1:{server}"),
        (":7000", f":{server}"),
        (":7300", f":{sites}"),
    ):
        assert shown in script
        script = script.replace(shown, here)
    printed = run_script(tmp_path, f"trap 'kill %1 %2; wait' EXIT\n{script}")
    assert printed.splitlines()[:2] == ['{"status":"success"}'] * 2
    assert "200" in printed.splitlines()
    assert " healthy " in printed
    for picture in ("page.png", "marked.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "page.png").read_bytes() != (tmp_path / "marked.png").read_bytes()


def test_the_page_lists_every_option_with_its_default() -> None:
    parser = ArgumentParser()
    configure(parser)
    (actions,) = (each for each in parser._actions if isinstance(each, _SubParsersAction))
    options = {
        option
        for action in actions.choices["serve"]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }
    rows = table(PAGE, "| option | default | meaning |")
    assert {names_in(option)[0] for option, *_ in rows} == options
    settings = BrowserSettings()
    for option, default, _ in rows:
        name = names_in(option)[0].removeprefix("--").replace("-", "_")
        value = settings.bound_port if name == "port" else getattr(settings, name)
        shown = f"{value:g}" if isinstance(value, int | float) else value
        assert default == (f"`{shown}`" if shown else "none")


def test_the_page_lists_every_route() -> None:
    rows = table(PAGE, "| route | arguments | answer |")
    assert [names_in(route)[0] for route, *_ in rows] == [
        f"{method} {path}" for path, method in ROUTES.items()
    ]


def test_the_page_lists_every_command_with_its_arguments() -> None:
    rows = table(PAGE, "| command | arguments |")
    assert [names_in(name)[0] for name, _ in rows] == list(COMMANDS)
    for name, arguments in rows:
        fields = COMMANDS[names_in(name)[0]].__struct_fields__
        assert re.findall(r"`([a-z_]+)`", arguments) == list(fields)


def test_the_page_lists_every_error_with_its_status() -> None:
    rows = table(PAGE, "| type | status | meaning |")
    assert {(names_in(kind)[0], int(status)) for kind, status, _ in rows} == {
        (kind.type, kind.status) for kind in WIRE_ERRORS
    }
