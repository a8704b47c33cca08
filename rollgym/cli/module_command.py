"""`python -m PACKAGE`: the same as one plugged-in command of `rollgym`.

Written without an action it does the usual one, for a server that is `serve`.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from rollgym.cli.exit_statuses import INTERRUPTED
from rollgym.cli.leaving import leave
from rollgym.cli.open_files import allow_many_open_files
from rollgym.cli.streams import prepare_streams

_HELP = ("-h", "--help")


def enter_module(
    name: str,
    configure: Callable[[ArgumentParser], None],
    run: Callable[[Namespace], int],
    *,
    actions: Collection[str] = (),
) -> NoReturn:
    """Run the command and end the process with its status; wrong use ends it with 2.

    `actions` are the command's own, of which the first is the usual one.
    """
    prepare_streams()
    allow_many_open_files()
    try:
        status = _status(name, configure, run, list(actions))
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as wrong_use_or_help:
        status = int(wrong_use_or_help.code or 0)
    leave(status)


def _status(
    name: str,
    configure: Callable[[ArgumentParser], None],
    run: Callable[[Namespace], int],
    actions: Sequence[str],
) -> int:
    parser = ArgumentParser(f"python -m {name}", allow_abbrev=False)
    configure(parser)
    arguments = sys.argv[1:]
    if actions and (not arguments or arguments[0] not in (*actions, *_HELP)):
        arguments = [actions[0], *arguments]
    options = parser.parse_args(arguments)
    from rollgym.cli.guard import guarded  # noqa: PLC0415 - --help does not need the engine

    return guarded(lambda: run(options))
