"""The `rollgym` command: find the sub-command, read its options, run it.

Sub-commands are modules with two functions, `configure(parser)` and `run(arguments) -> int`. Only
the one asked for is imported, so that `rollgym --help` answers at once.
"""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from rollgym import __version__
from rollgym.cli.leaving import leave

_DESCRIPTION = """\
Collect agent rollouts: durable, bounded, and honest about what happened.

Start with `rollgym demo`. It needs no model and no network, takes a few
seconds, and leaves a run in results/demo that the other commands can look at:

  rollgym demo                     collect a small built-in set of puzzles
  rollgym status results/demo      what is there, counted from the files
  rollgym profile results/demo     how the rewards of each task are spread
"""

INTERRUPTED = 5
_EXIT_STATUSES = """\
exit status of a command that collects:
  0  every rollout is completed      4  some were omitted on purpose
  1  something broke                 5  interrupted: run the same command again
  2  the command was used wrongly    6  refused, and nothing was changed
  3  some rollouts failed            7  the disk failed; what it has is kept

Commands that only look at a run end with 0 when they could.
"""


HELP_WIDTH = 80


class _Command(NamedTuple):
    name: str
    module: str
    summary: str


class _CommandModule(Protocol):
    @staticmethod
    def configure(parser: ArgumentParser) -> None: ...

    @staticmethod
    def run(arguments: Namespace) -> int: ...


_COMMANDS = (
    _Command("demo", "rollgym.cli.demo", "collect rollouts of a small built-in set of puzzles"),
    _Command("status", "rollgym.cli.status", "say what a run amounts to, from its files"),
    _Command("merge", "rollgym.cli.merge", "make one run out of its shards and copies"),
    _Command("profile", "rollgym.cli.profile", "show how the rewards of each task are spread"),
)


def entry() -> NoReturn:
    """The console script: a Ctrl-C while a command is being loaded is no traceback."""
    _prepare_streams()
    try:
        status = main(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as wrong_use_or_help:
        status = int(wrong_use_or_help.code or 0)
    leave(status)


def _prepare_streams() -> None:
    """Text that the terminal's encoding lacks is escaped; a closed stream takes everything."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        elif stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115


def main(arguments: Sequence[str]) -> int:
    """Run one command to its exit status. Wrong use exits with 2, as argparse does."""
    command, options = _parse(arguments)
    from rollgym.cli.guard import guarded  # noqa: PLC0415 - --help does not need the engine

    return guarded(lambda: command.run(options))


class _Parser(ArgumentParser):
    """Help laid out as it is written, and options that are not guessed from their prefixes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options |= {
            "epilog": _EXIT_STATUSES,
            "formatter_class": RawDescriptionHelpFormatter,
            "allow_abbrev": False,
        }
        super().__init__(*args, **options)


def _parse(arguments: Sequence[str]) -> tuple[_CommandModule, Namespace]:
    parser = _Parser("rollgym", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"rollgym {__version__}")
    choices = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    parsers = {
        command.name: choices.add_parser(command.name, help=command.summary)
        for command in _COMMANDS
    }
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    if asked is None:
        parser.parse_args(arguments)  # exits for --help, --version and unknown options
        parser.error("a command is needed, such as `rollgym demo`; see `rollgym --help`")
    if asked not in parsers:
        _refuse_command(parser, asked)
    module = _load(asked)
    module.configure(parsers[asked])
    parsers[asked].description = fill(parsers[asked].description or "", HELP_WIDTH)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_options(parsers[asked], unknown)
    return module, options


def _load(name: str) -> _CommandModule:
    path = next(command.module for command in _COMMANDS if command.name == name)
    return cast("_CommandModule", import_module(path))


def _refuse_command(parser: ArgumentParser, asked: str) -> NoReturn:
    names = [command.name for command in _COMMANDS]
    close = get_close_matches(asked, names, 1)
    advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    parser.error(f"unknown command {asked!r}: {advice}")


def _refuse_options(parser: ArgumentParser, unknown: list[str]) -> NoReturn:
    known = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001
    close = get_close_matches(unknown[0].partition("=")[0], known, 1)
    advice = f" (did you mean {close[0]}?)" if close else ""
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
