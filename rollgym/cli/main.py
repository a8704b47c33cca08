"""The `rollgym` command: it finds the sub-command, reads its options and runs it.

Most sub-commands are modules with two functions, `configure(parser)` and `run(arguments) -> int`.
Those with Hydra overrides, such as `rollgym run`, are modules with `help_text()` and
`run(arguments) -> int`; those with flags beside the overrides have `TAKES_FLAGS`. Only the module
of the sub-command is imported, so that `rollgym --help` answers at once.

Other packages add commands of the first kind by entry points of the group `rollgym.commands`. Their
line in the help is the part of the module's docstring after the first colon; it is read without
importing the module.
"""

import sys
from argparse import (
    Action,
    ArgumentError,
    ArgumentParser,
    Namespace,
    RawDescriptionHelpFormatter,
    _SubParsersAction,
)
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.abc import InspectLoader
from textwrap import fill
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from rollgym import __version__
from rollgym.cli.process import (
    EXIT_STATUSES,
    OTHER_EXIT_STATUSES,
    end_process,
    exit_status_of,
    override_command,
)
from rollgym.suggestions import advice, suggestion

_DESCRIPTION = """\
Collect agent rollouts: durable, bounded, and honest about what happened.

Start with a collection that needs no model and no network:

  rollgym demo

or, step by step (each FILE configures a model or an environment):

  rollgym collect --config FILE --config FILE --agent NAME \\
    --input TASKS.jsonl --output results/rollouts.jsonl
  rollgym view results/rollouts.jsonl       read the rollouts in a browser
  rollgym profile results/rollouts.jsonl    the distribution of rewards by task
  rollgym export results/rollouts.jsonl --format sft --output sft.jsonl

With your own model, `rollgym run` starts the servers and `rollgym collect` uses
them. `rollgym status` reads a run directory; ng_status lists running servers.
ng_run, ng_collect_rollouts, ng_viewer are the commands run, collect and view.
"""

HELP_WIDTH = 80
ENTRY_POINTS = "rollgym.commands"


class _Command(NamedTuple):
    name: str
    module: str
    summary: str


_OVERRIDE_COMMANDS = (
    _Command("run", "rollgym.cli.ng_run", "start servers and keep them running (ng_run)"),
    _Command("collect", "rollgym.cli.collect", "collect rollouts (ng_collect_rollouts)"),
    _Command(
        "serve-rollouts",
        "rollgym.cli.serve_rollouts",
        "collect groups for a trainer, without an end",
    ),
    _Command("reverify", "rollgym.cli.reverify", "score stored rollouts again, without a model"),
    _Command("demo", "rollgym.cli.demo", "collect a bundled example, without a model"),
)
_COMMANDS = (
    _Command("view", "rollgym.cli.view", "read rollouts in a browser (ng_viewer)"),
    _Command("profile", "rollgym.cli.profile", "show the distribution of rewards by task"),
    _Command("status", "rollgym.cli.status", "show the coverage and numbers of a run directory"),
    _Command("ctl", "rollgym.cli.ctl", "pause, limit, retry or stop a running collection"),
    _Command("merge", "rollgym.cli.merge", "merge the shards and copies of a run"),
    _Command("model", "rollgym.cli.model", "serve a GGUF file as a model, or get a small one"),
    _Command(
        "gateway", "rollgym.cli.gateway", "record the model calls of any agent, with their tokens"
    ),
    _Command("export", "rollgym.cli.export", "write training data from rollouts"),
    _Command("import", "rollgym.cli.imports", "make rollouts of other trajectories (ATIF)"),
)


def entry() -> NoReturn:
    """The console script."""
    end_process(lambda: main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command to its exit status. Wrong use exits with 2, as argparse does."""
    asked = arguments[0] if arguments else None
    if asked == "help":
        arguments = ["--help"]
    for command in _OVERRIDE_COMMANDS:
        if command.name == asked:
            overriding = import_module(command.module)
            return override_command(
                arguments[1:],
                overriding.help_text,
                overriding.run,
                takes_flags=getattr(overriding, "TAKES_FLAGS", False),
            )
    if asked is not None and (forwarded := _forwarded(asked)) is not None:
        return exit_status_of(lambda: forwarded(arguments[1:]))
    parsed, options = _parse(arguments)
    return exit_status_of(lambda: parsed.run(options))


def _forwarded(asked: str) -> Callable[[Sequence[str]], int] | None:
    """The function of a command of another package that reads its arguments itself."""
    command = None if asked.startswith("-") else _commands(asked).get(asked)
    if command is None or command in _COMMANDS:
        return None
    found: Callable[[Sequence[str]], int] | None
    found = getattr(import_module(command.module), "run_arguments", None)
    return found


class _Parser(ArgumentParser):
    """Help laid out as it is written, and options that are not guessed from their prefixes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options |= {
            "epilog": OTHER_EXIT_STATUSES,
            "formatter_class": RawDescriptionHelpFormatter,
            "allow_abbrev": False,
        }
        super().__init__(*args, **options)

    def _check_value(self, action: Action, value: Any) -> None:
        """Suggest the sub-command that was meant."""
        if isinstance(action, _SubParsersAction) and value not in action.choices:
            raise ArgumentError(None, _unknown_command(value, action.choices))
        super()._check_value(action, value)


def _parse(arguments: Sequence[str]) -> tuple[ModuleType, Namespace]:
    parser = _Parser("rollgym", description=_DESCRIPTION)
    parser.epilog = EXIT_STATUSES
    parser.add_argument("--version", action="version", version=f"rollgym {__version__}")
    choices = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    commands = _commands(asked)
    parsers = {
        name: choices.add_parser(name, help=command.summary) for name, command in commands.items()
    }
    if asked is None:
        parser.parse_args(arguments)  # exits for --help, --version and unknown options
        parser.error("a command is missing, such as `rollgym demo`; see `rollgym --help`")
    if asked not in parsers:
        _reject_command(parser, asked, commands)
    module = import_module(commands[asked].module)
    module.configure(parsers[asked])
    parsers[asked].description = fill(parsers[asked].description or "", HELP_WIDTH)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        _reject_options(_innermost(parsers[asked], arguments), unknown)
    return module, options


def _commands(asked: str | None) -> dict[str, _Command]:
    """All commands by name; those of other packages only where they are needed."""
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


def _reject_command(
    parser: ArgumentParser, asked: str, commands: Mapping[str, _Command]
) -> NoReturn:
    parser.error(_unknown_command(asked, commands))


def _unknown_command(asked: str, known: Iterable[str]) -> str:
    names = list(known)
    meant = advice(asked, names, f"the commands are {', '.join(names)}")
    return f"unknown command {asked!r}: {meant}"


def _innermost(parser: ArgumentParser, arguments: Sequence[str]) -> ArgumentParser:
    """The parser of the sub-command's own sub-command, if one is named."""
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, _SubParsersAction):
            asked = next((each for each in arguments if each in action.choices), None)
            return parser if asked is None else _innermost(action.choices[asked], arguments)
    return parser


def _reject_options(parser: ArgumentParser, unknown: list[str]) -> NoReturn:
    known = [option for action in parser._actions for option in action.option_strings]  # noqa: SLF001
    meant = suggestion(unknown[0].partition("=")[0], known)
    parser.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
