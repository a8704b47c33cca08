"""`python -m webgym.miniwob` serves MiniWoB++."""

from argparse import ArgumentParser
from typing import NoReturn

from rollgym.cli.guard import guarded
from rollgym.cli.leaving import leave
from rollgym.cli.streams import prepare_streams
from webgym.miniwob.command import configure, run


def main() -> NoReturn:
    prepare_streams()
    parser = ArgumentParser("python -m webgym.miniwob", allow_abbrev=False)
    configure(parser)
    arguments = parser.parse_args()
    leave(guarded(lambda: run(arguments)))


if __name__ == "__main__":
    main()
