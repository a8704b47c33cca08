"""`python -m webgym.browser`: the same as `rollgym browser`; without an action it serves."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import NoReturn

from rollgym.cli.exit_statuses import INTERRUPTED
from rollgym.cli.leaving import leave
from rollgym.cli.open_files import allow_many_open_files
from rollgym.cli.streams import prepare_streams
from webgym.browser.command import configure, run

_ACTIONS = frozenset(("serve", "status", "-h", "--help"))


def main(arguments: Sequence[str]) -> int:
    """Run to the exit status. Wrong use exits with 2, as argparse does."""
    parser = ArgumentParser("python -m webgym.browser", allow_abbrev=False)
    configure(parser)
    if not arguments or arguments[0] not in _ACTIONS:
        arguments = ["serve", *arguments]
    options = parser.parse_args(arguments)
    from rollgym.cli.guard import guarded  # noqa: PLC0415 - --help does not need the engine

    return guarded(lambda: run(options))


def entry() -> NoReturn:
    prepare_streams()
    allow_many_open_files()
    try:
        status = main(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as wrong_use_or_help:
        status = int(wrong_use_or_help.code or 0)
    leave(status)


if __name__ == "__main__":
    entry()
