"""`rollgym browser`: run a browser server for web agents, or show its nodes.

Only what the options need is imported here, so that `rollgym --help` answers at once.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from textwrap import fill

from rollgym.cli.process import port_number

HELP_WIDTH = 80
DEFAULT_URL = "http://127.0.0.1:7000"
_EXIT_STATUSES = """\
exit status: 0 stopped by Ctrl-C or SIGTERM, 1 error, 2 the command was used
wrongly, 6 the settings were rejected
"""


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Browser sessions for web agents: `serve` runs a server, `status` shows its nodes."
    )
    parser.epilog = _EXIT_STATUSES
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    _configure_serve(actions.add_parser("serve", help="run a browser server until Ctrl-C"))
    _configure_status(actions.add_parser("status", help="show the nodes of a server"))


def run(arguments: Namespace) -> int:
    """Raises RefusedError."""
    if arguments.action == "status":
        from webgym.browser.status import show  # noqa: PLC0415 - --help does not need it

        return show(arguments.url)
    from webgym.browser.server import serve  # noqa: PLC0415

    given = {name: value for name, value in vars(arguments).items() if value is not None}
    del given["action"]
    return serve(given)


def _configure_serve(parser: ArgumentParser) -> None:
    parser.description = fill(
        "Serve browser sessions until Ctrl-C. One command is a complete server. To spread sessions "
        "over machines, start one server with --role master, and one with --role node --master URL "
        "on each machine. Clients and nodes must send the token in CPU_CLUSTER_TOKEN; without a "
        "token, the server only answers programs on this machine.",
        HELP_WIDTH,
    )
    parser.epilog = _EXIT_STATUSES
    parser.formatter_class = RawDescriptionHelpFormatter
    add = parser.add_argument
    add(
        "--role",
        choices=("both", "master", "node"),
        help="part of a cluster to run (default: both, on one machine)",
    )
    add("--host", help="address to listen on (default: 127.0.0.1)")
    add("--port", type=port_number, help="port to listen on, 0 for any (default: 7000; node: 8080)")
    add("--master", metavar="URL", help="URL of the master, for a node")
    add("--url", metavar="URL", help="URL at which the master reaches this node")
    add("--browser", metavar="PATH", help="browser to run (default: the best one found)")
    add(
        "--allow-network",
        action="append",
        metavar="NETWORK",
        help="network that pages may reach although it is not public: 10.1.0.0/16, 127.0.0.1:8000, "
        "loopback; can be given several times",
    )
    add(
        "--allow-proxy",
        action="append",
        metavar="ADDRESS",
        help="proxy that sessions may use although its address is not public, as for "
        "--allow-network; can be given several times",
    )
    for flag, number, description in _NUMBERS:
        add(flag, type=number, metavar="N", help=description)


def _configure_status(parser: ArgumentParser) -> None:
    parser.description = "Show the nodes of a browser server and how many sessions are in use."
    parser.epilog = (
        "exit status: 0 all nodes are healthy, 1 a node is not, or the server does not answer\n"
    )
    parser.add_argument(
        "--url", default=DEFAULT_URL, help=f"URL of the server (default: {DEFAULT_URL})"
    )


def _integer(lowest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < lowest:
            raise ArgumentTypeError(f"{text!r} is not a whole number of at least {lowest}")
        return int(text)

    return read


def _number(lowest: float, highest: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not lowest <= number <= highest:
            raise ArgumentTypeError(f"{text!r} is not a number from {lowest:g} to {highest:g}")
        return number

    return read


_count, _count_or_zero = _integer(1), _integer(0)
_positive, _wait_seconds = _number(0.001, 1e9), _number(0, 600)
_NUMBERS = (
    ("--capacity", _count, "sessions at the same time (default: by memory and cores)"),
    ("--sessions-per-browser", _count, "sessions per browser (default: 16)"),
    ("--browser-sessions", _count, "sessions after which a browser is replaced (default: 500)"),
    ("--browser-minutes", _positive, "age at which a browser is replaced (default: 60)"),
    ("--browser-megabytes", _count, "memory at which a browser is replaced (default: 4096)"),
    ("--lifetime-mins", _positive, "lifetime of a session (default: 60)"),
    (
        "--longest-lifetime-mins",
        _positive,
        "longest lifetime that a client can request (default: 1440)",
    ),
    ("--idle-seconds", _positive, "an unused session ends after this time (default: 900)"),
    (
        "--first-use-seconds",
        _positive,
        "a session that was never used ends after this time (default: 60)",
    ),
    ("--wait-seconds", _wait_seconds, "how long a client waits for a session (default: 60)"),
    ("--queue-size", _count_or_zero, "number of requests that may wait (default: 1024)"),
)
"""The options that are numbers: their names, how they are read, and their descriptions."""
