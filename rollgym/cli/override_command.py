"""The commands whose options are written as overrides: `ng_run +config_paths=[…]` and its kin."""

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from rollgym.cli.exit_statuses import INTERRUPTED
from rollgym.cli.leaving import leave
from rollgym.cli.open_files import allow_many_open_files
from rollgym.cli.streams import prepare_streams, say

_HELP = {"-h", "--help", "help"}


def run_command(
    arguments: Sequence[str], help_text: Callable[[], str], command: Callable[[Sequence[str]], int]
) -> int:
    """Run a command to its exit status; `--help` anywhere asks for the text."""
    if _HELP & set(arguments):
        say(help_text().strip())
        return 0
    from rollgym.cli.guard import guarded  # noqa: PLC0415 - --help does not need the engine

    return guarded(lambda: command(_without_dashes(arguments)))


def _without_dashes(arguments: Sequence[str]) -> Sequence[str]:
    """Raises RefusedError where options are written as other programs want them."""
    from rollgym.store import RefusedError  # noqa: PLC0415 - --help does not need the store

    dashed = [argument for argument in arguments if argument.startswith("-")]
    if dashed:
        # The value is not repeated: it may be a credential.
        name = dashed[0].partition("=")[0]
        written = f"+{name.lstrip('-').replace('-', '_')}=VALUE"
        raise RefusedError(
            f"{name}: options are written without dashes, as in {written}; --help lists them"
        )
    return arguments


def enter(help_text: Callable[[], str], command: Callable[[Sequence[str]], int]) -> NoReturn:
    """The console script: a Ctrl-C while the command is being loaded is no traceback."""
    prepare_streams()
    allow_many_open_files()
    try:
        status = run_command(sys.argv[1:], help_text, command)
    except KeyboardInterrupt:
        status = INTERRUPTED
    leave(status)
