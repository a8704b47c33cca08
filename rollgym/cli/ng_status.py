"""`ng_status`: the servers of a running `ng_run`, and their health."""

from collections.abc import Sequence
from typing import NoReturn

from rollgym.cli.process import run_override_command

HELP = """
usage: ng_status [+head_server.port=11000] [+head_server.host=127.0.0.1] [+server_token=…]

List the servers of a running ng_run with their URLs and status, and check the
health of each. The token of an ng_run beyond loopback is also read from
env.yaml. To see the progress of a run directory, use `rollgym status RUN`.

exit status: 0 all are healthy, 1 some are not, or no ng_run answers, 2 the
command was used wrongly
"""


def help_text() -> str:
    return HELP


def run(arguments: Sequence[str]) -> int:
    from rollgym.cli.serving import show  # noqa: PLC0415 - --help does not need the servers

    return show(arguments)


def entry() -> NoReturn:
    run_override_command(help_text, run)


if __name__ == "__main__":
    entry()
