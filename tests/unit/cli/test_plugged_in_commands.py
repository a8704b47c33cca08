"""Commands of packages that rollgym knows nothing of."""

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import SimpleNamespace

import pytest

from rollgym.cli.main import ENTRY_POINTS, main

MODULE = '''"""`rollgym juggle`: keep 100% of the balls in the air.

The rest is nobody's business.
"""

def configure(parser):
    parser.description = "Juggle."
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("begin").add_argument("--balls", type=int, default=3)

def run(arguments):
    print(f"{arguments.action} with {arguments.balls} balls")
    return 0
'''


@pytest.fixture
def points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """What the distribution of rollgym is said to have."""
    (tmp_path / "juggling.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    said = [EntryPoint("juggle", "juggling", ENTRY_POINTS)]
    monkeypatch.setattr(
        importlib.metadata,
        "distribution",
        lambda name: SimpleNamespace(entry_points=EntryPoints(said)),
    )
    yield said
    sys.modules.pop("juggling", None)


def test_a_plugged_in_command_is_run(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["juggle", "begin", "--balls", "5"]) == 0
    assert capsys.readouterr().out == "begin with 5 balls\n"


def test_its_line_in_the_help_is_read_without_importing_it(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert re.search(r"juggle +keep 100% of the balls in the air\n", capsys.readouterr().out)
    assert "juggling" not in sys.modules


def test_one_that_is_not_installed_spoils_nothing(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    points.append(EntryPoint("absent", "no_such_package.command", ENTRY_POINTS))
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert re.search(r"absent +\(not installed\)", capsys.readouterr().out)


def test_none_takes_the_place_of_a_command_of_rollgym(
    points: list[EntryPoint], capsys: pytest.CaptureFixture[str]
) -> None:
    points.append(EntryPoint("status", "juggling", ENTRY_POINTS))
    with pytest.raises(SystemExit, match="2"):
        main(["status"])
    assert "RUN" in capsys.readouterr().err


def test_wrong_use_is_told(points: list[EntryPoint], capsys: pytest.CaptureFixture[str]) -> None:
    cases: list[tuple[list[str], str]] = [
        (["jugle"], "did you mean juggle?"),
        (["juggle"], "required: action"),
        (["juggle", "begin", "--bals=3"], "did you mean '--balls'?"),
    ]
    for arguments, message in cases:
        with pytest.raises(SystemExit, match="2"):
            main(arguments)
        assert message in capsys.readouterr().err


def test_the_help_of_the_browser_command_fits_80_columns_and_loads_nothing() -> None:
    code = (
        "import sys; from argparse import ArgumentParser\n"
        "from webgym.browser.command import configure\n"
        "parser = ArgumentParser('rollgym browser'); configure(parser)\n"
        "try: parser.parse_args(['serve', '--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('aiohttp', 'msgspec', 'asyncio')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "CPU_CLUSTER_TOKEN" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
