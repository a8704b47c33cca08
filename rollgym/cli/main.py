"""The `rollgym` command: find the sub-command, read its options, run it.

Most sub-commands are modules with two functions, `configure(parser)` and `run(arguments) -> int`.
Those that are also known by a name of their own, such as `ng_run`, take Hydra overrides: modules
with `help_text()` and `run(arguments) -> int`. Only the one asked for is imported, so that
`rollgym --help` answers at once.

Packages that rollgym knows nothing of add commands of the first kind by entry points of the group
`rollgym.commands`. Their line in the help is what the module's docstring says after the first
colon; it is read without importing the module.
"""

import sys
from argparse import (
    ArgumentParser,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.abc import InspectLoader
from textwrap import fill
from types import ModuleType
from typing import Any, NamedTuple, NoReturn, Protocol, cast

from rollgym import __version__
from rollgym.cli.exit_statuses import EXIT_STATUSES, INTERRUPTED
from rollgym.cli.leaving import leave
from rollgym.cli.open_files import allow_many_open_files
from rollgym.cli.override_command import run_command
from rollgym.cli.streams import prepare_streams

_DESCRIPTION = """\
Collect agent rollouts: durable, bounded, and honest about what happened.

Start with a collection that needs no model and no network. It takes a second,
and leaves files that the other commands can look at:

  make demo

or, step by step (FILES are a model's and an environment's configuration):

  rollgym collect +config_paths=[FILES] +agent_name=NAME \\
    +input_jsonl_fpath=TASKS.jsonl +output_jsonl_fpath=results/rollouts.jsonl
  rollgym view results/rollouts.jsonl       read in a browser what the agent did
  rollgym profile results/rollouts.jsonl    how the rewards of tasks are spread
  rollgym export results/rollouts.jsonl --format sft --output sft.jsonl

With a model of yours: `rollgym run` keeps servers up, `rollgym collect` uses
them. ng_run, ng_collect_rollouts, ng_status and ng_viewer are the same commands
under the names that people know.
"""

HELP_WIDTH = 80
ENTRY_POINTS = "rollgym.commands"


class _Command(NamedTuple):
    name: str
    module: str
    summary: str


class _CommandModule(Protocol):
    @staticmethod
    def configure(parser: ArgumentParser) -> None: ...

    @staticmethod
    def run(arguments: Namespace) -> int: ...


class _OverrideModule(Protocol):
    @staticmethod
    def help_text() -> str: ...

    @staticmethod
    def run(arguments: Sequence[str]) -> int: ...


_OVERRIDE_COMMANDS = (
    _Command("run", "rollgym.cli.ng_run", "start servers and keep them up (ng_run)"),
    _Command("collect", "rollgym.cli.collect", "collect rollouts of a dataset"),
    _Command("reverify", "rollgym.cli.reverify", "score stored rollouts again, without a model"),
)
_COMMANDS = (
    _Command("view", "rollgym.cli.view", "look at rollouts in a browser"),
    _Command("profile", "rollgym.cli.profile", "show how the rewards of each task are spread"),
    _Command("status", "rollgym.cli.status", "say what a run amounts to, from its files"),
    _Command("merge", "rollgym.cli.merge", "make one run out of its shards and copies"),
    _Command("export", "rollgym.cli.export", "turn rollouts into training data"),
    _Command("demo", "rollgym.cli.demo", "watch the engine at work on built-in puzzles"),
)


def entry() -> NoReturn:
    """The console script: a Ctrl-C while a command is being loaded is no traceback."""
    prepare_streams()
    allow_many_open_files()
    try:
        status = main(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as wrong_use_or_help:
        status = int(wrong_use_or_help.code or 0)
    leave(status)


def main(arguments: Sequence[str]) -> int:
    """Run one command to its exit status. Wrong use exits with 2, as argparse does."""
    asked = arguments[0] if arguments else None
    if asked == "help":
        arguments = ["--help"]
    if any(asked == command.name for command in _OVERRIDE_COMMANDS):
        overriding = cast("_OverrideModule", _load(asked))
        return run_command(arguments[1:], overriding.help_text, overriding.run)
    command, options = _parse(arguments)
    from rollgym.cli.guard import guarded  # noqa: PLC0415 - --help does not need the engine

    return guarded(lambda: command.run(options))


class _Parser(ArgumentParser):
    """Help laid out as it is written, and options that are not guessed from their prefixes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options |= {
            "epilog": EXIT_STATUSES,
            "formatter_class": RawDescriptionHelpFormatter,
            "allow_abbrev": False,
        }
        super().__init__(*args, **options)


def _parse(arguments: Sequence[str]) -> tuple[_CommandModule, Namespace]:
    parser = _Parser("rollgym", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"rollgym {__version__}")
    choices = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    commands = _commands(asked)
    parsers = {
        name: choices.add_parser(name, help=command.summary) for name, command in commands.items()
    }
    if asked is None:
        parser.parse_args(arguments)  # exits for --help, --version and unknown options
        parser.error("a command is needed, such as `rollgym demo`; see `rollgym --help`")
    if asked not in parsers:
        _refuse_command(parser, asked, commands)
    module = cast("_CommandModule", import_module(commands[asked].module))
    module.configure(parsers[asked])
    parsers[asked].description = fill(parsers[asked].description or "", HELP_WIDTH)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _refuse_options(_innermost(parsers[asked], arguments), unknown)
    return module, options


def _commands(asked: str | None) -> dict[str, _Command]:
    """All commands by name; those of other packages only where they may be needed."""
    commands = {command.name: command for command in (*_OVERRIDE_COMMANDS, *_COMMANDS)}
    if asked in commands:
        return commands
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - 10 ms

    try:
        points = distribution("rollgym").entry_points.select(group=ENTRY_POINTS)
    except PackageNotFoundError:  # run from its source
        return commands
    for point in points:
        summary = _summary(point.value) if asked is None else ""
        commands.setdefault(point.name, _Command(point.name, point.value, summary))
    return commands


def _summary(module: str) -> str:
    from importlib.util import find_spec  # noqa: PLC0415

    try:
        loader = getattr(find_spec(module), "loader", None)
        source = str(loader.get_source(module)) if isinstance(loader, InspectLoader) else ""
    except ImportError:
        source = ""
    first_line = source.partition('"""')[2].partition("\n")[0].removesuffix('"""')
    return first_line.partition(": ")[2].rstrip(".").replace("%", "%%") or "(not installed)"


def _load(name: str | None) -> ModuleType:
    return import_module(next(each.module for each in _OVERRIDE_COMMANDS if each.name == name))


def _refuse_command(
    parser: ArgumentParser, asked: str, commands: Mapping[str, _Command]
) -> NoReturn:
    close = get_close_matches(asked, commands, 1)
    advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(commands)}"
    parser.error(f"unknown command {asked!r}: {advice}")


def _innermost(parser: ArgumentParser, arguments: Sequence[str]) -> ArgumentParser:
    """The parser of the sub-command of a sub-command, if one was asked for."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, _SubParsersAction):
            asked = next((each for each in arguments if each in action.choices), None)
            return parser if asked is None else _innermost(action.choices[asked], arguments)
    return parser


def _refuse_options(parser: ArgumentParser, unknown: list[str]) -> NoReturn:
    known = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001
    close = get_close_matches(unknown[0].partition("=")[0], known, 1)
    advice = f" (did you mean {close[0]}?)" if close else ""
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
