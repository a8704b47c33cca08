"""`ng_viewer`, also `rollgym view`: show rollouts in a browser."""

import asyncio
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec

from rollgym.cli.process import (
    HIGHEST_PORT,
    exit_now,
    port_number,
    run_override_command,
    say,
)

LOOPBACK = "127.0.0.1"
DEFAULT_FOLDER = "results"
HELP = """
usage: ng_viewer +jsonl_fpath=FILE [+server_host=HOST] [+server_port=PORT]
       ng_viewer PATH...

Show the rollouts that ng_collect_rollouts wrote in a browser, until Ctrl-C:

  ng_viewer +jsonl_fpath=results/example_multi_step_rollouts.jsonl

The file may still be growing. Failed attempts are shown too, from the file
*_failures.jsonl beside it. FILE can also be a run directory, a folder with any
of these, or a list: +jsonl_fpath=[results/a.jsonl,results/b].

options:
  +jsonl_fpath=FILE        the rollouts to show
  +server_host=127.0.0.1   address to listen on; for an address that other
                           machines can reach, the URL contains a token
  +server_port=11001       port to listen on (default: 11001, or a free port)

exit status: 0 ended by Ctrl-C, 2 the command was used wrongly, 6 rejected
"""


class ViewSettings(msgspec.Struct, frozen=True):
    """The options of the command. Port 0 is the default port, or a free one."""

    jsonl_fpath: str | Annotated[list[str], msgspec.Meta(min_length=1)]
    server_host: str = LOOPBACK
    server_port: Annotated[int, msgspec.Meta(ge=0, le=HIGHEST_PORT)] = 0

    @property
    def paths(self) -> list[Path]:
        named = [self.jsonl_fpath] if isinstance(self.jsonl_fpath, str) else self.jsonl_fpath
        return [Path(path).expanduser() for path in named]


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Show rollouts in a browser, until Ctrl-C: files that ng_collect_rollouts wrote, run "
        "directories, folders of web rollouts, or any folder with these in it. They may still be "
        "growing. ng_viewer is the same command."
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help=f"a .jsonl file, a run directory, or a folder of them (default: {DEFAULT_FOLDER})",
    )
    parser.add_argument(
        "--host",
        default=LOOPBACK,
        help=f"address to listen on (default: {LOOPBACK}); others need a token",
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=0,
        help="port to listen on (default: 11001, or a free port)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(arguments: Namespace) -> int:
    paths = arguments.paths or [DEFAULT_FOLDER]
    settings = ViewSettings(paths, arguments.host, arguments.port)
    return view(settings, open_browser=arguments.open)


def view(settings: ViewSettings, *, open_browser: bool = False) -> int:
    """Show the rollouts until a signal ends it. Raises RefusedError."""
    from rollgym.engine import run as run_loop  # noqa: PLC0415 - --help does not need it

    return run_loop(_show(settings, open_browser=open_browser))


def view_overrides(overrides: Sequence[str]) -> int:
    """`view` for settings written as overrides. Raises RefusedError."""
    return view(_read(overrides))


def ng_viewer_entry() -> NoReturn:
    run_override_command(lambda: HELP, view_overrides)


async def _show(settings: ViewSettings, *, open_browser: bool) -> int:
    # Here rather than above, so that --help answers at once.
    from rollgym.engine import stopping_on_signals  # noqa: PLC0415
    from rollgym.viewer.server import serving  # noqa: PLC0415

    stop = asyncio.Event()
    with stopping_on_signals(stop.set, lambda: exit_now(0)):
        async with serving(settings.paths, settings.server_host, settings.server_port) as url:
            say(f"{_named(settings.paths)} shown at {url} until Ctrl-C")
            if open_browser and not await asyncio.to_thread(webbrowser.open, url):
                say("No browser could be opened here. Open the URL yourself.")
            await stop.wait()
    return 0


def _named(paths: Sequence[Path]) -> str:
    first, *others = map(str, paths)
    return f"{', '.join([first, *others])} {'are' if others else 'is'}"


def _read(overrides: Sequence[str]) -> ViewSettings:
    from rollgym.servers.config.overrides import (  # noqa: PLC0415 - --help does not need it
        misuse,
        parse_overrides,
        read_options,
    )
    from rollgym.suggestions import suggestion  # noqa: PLC0415

    paths = [each for each in overrides if _is_path(each)]
    named = parse_overrides([each for each in overrides if each not in paths])
    given = {name: value for name, value in named.items() if value not in (None, "")}
    if paths:
        others = given.get("jsonl_fpath", [])
        given["jsonl_fpath"] = [*(others if isinstance(others, list) else [others]), *paths]
    known = ViewSettings.__struct_fields__
    unknown = [name for name in given if name not in known]
    if unknown:
        what = f"there is no option +{unknown[0]}{suggestion(unknown[0], known)}"
        raise misuse(what, "see `ng_viewer --help`")
    if "jsonl_fpath" not in given:
        raise misuse("`jsonl_fpath` is missing", "pass +jsonl_fpath=results/rollouts.jsonl")
    return read_options(given, ViewSettings, "ng_viewer")


def _is_path(text: str) -> bool:
    """Whether an argument is a path and not an override. Folders may have names like `lr=0.1`."""
    return not text.startswith(("+", "~")) and ("=" not in text or Path(text).exists())


if __name__ == "__main__":
    ng_viewer_entry()
