"""`rollgym browser`: keep real browsers up for web agents (serve, status).

Only what the options need is imported here, so that `rollgym --help` answers at once.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from textwrap import fill

HELP_WIDTH = 80
DEFAULT_URL = "http://127.0.0.1:7000"
HIGHEST_PORT = 65_535
_EXIT_STATUSES = """\
exit status: 0 stopped by Ctrl-C or SIGTERM, 1 something broke, 6 refused
"""


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Sessions in real browsers, for web agents: `serve` keeps them up, `status` shows how many "
        "are taken."
    )
    parser.epilog = _EXIT_STATUSES
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    _configure_serve(actions.add_parser("serve", help="serve sessions until Ctrl-C"))
    _configure_status(actions.add_parser("status", help="show the nodes of a server"))


def run(arguments: Namespace) -> int:
    """Raises RefusedError."""
    if arguments.action == "status":
        from webgym.browser.status import show  # noqa: PLC0415 - --help does not need it

        return show(arguments.url)
    from webgym.browser.serve import serve  # noqa: PLC0415

    given = {name: value for name, value in vars(arguments).items() if value is not None}
    del given["action"]
    return serve(given)


def _configure_serve(parser: ArgumentParser) -> None:
    parser.description = fill(
        "Serve browser sessions until Ctrl-C. One command is a whole server; to spread sessions "
        "over machines, start one with --role master, and on each machine one with --role node "
        "--master URL. The token that clients and nodes send is taken from CPU_CLUSTER_TOKEN; "
        "without one, only programs on this machine are answered.",
        HELP_WIDTH,
    )
    parser.epilog = _EXIT_STATUSES
    parser.formatter_class = RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--role", choices=("both", "master", "node"), help="(default: both, on one machine)")
    add("--host", help="where to listen (default: 127.0.0.1)")
    add("--port", type=_port, help="(default: 7000; of a node 8080); 0: any that is free")
    add("--master", metavar="URL", help="of a node: its master")
    add("--url", metavar="URL", help="of a node: where the master reaches it")
    add("--capacity", type=_count, metavar="N", help="sessions at a time (default: what fits)")
    add("--browser", metavar="PATH", help="the browser to run (default: the best found)")
    add(
        "--allow-network",
        action="append",
        metavar="NETWORK",
        help="let pages reach it although it is not public: 10.1.0.0/16, 127.0.0.1:8000, loopback; "
        "may be given several times",
    )
    add("--sessions-per-browser", type=_count, metavar="N", help="(default: 16)")
    add("--browser-sessions", type=_count, metavar="N", help="replace a browser after (500)")
    add("--browser-minutes", type=_seconds, metavar="N", help="replace a browser after (60)")
    add("--browser-megabytes", type=_count, metavar="N", help="replace a browser above (4096)")
    add("--lifetime-mins", type=_seconds, metavar="N", help="of a session (default: 60)")
    add("--longest-lifetime-mins", type=_seconds, metavar="N", help="that can be had (1440)")
    add("--idle-seconds", type=_seconds, metavar="N", help="a session unused so long ends (900)")
    add(
        "--first-use-seconds",
        type=_seconds,
        metavar="N",
        help="so does one not used at all so long after /get (60)",
    )
    add("--wait-seconds", type=_patience, metavar="N", help="for a free session (default: 60)")
    add("--queue-size", type=_size, metavar="N", help="requests that may wait (default: 1024)")


def _configure_status(parser: ArgumentParser) -> None:
    parser.description = "Show the nodes of a browser server and how many sessions are taken."
    parser.epilog = "exit status: 0 all nodes are healthy, 1 not all, or no answer\n"
    parser.add_argument("--url", default=DEFAULT_URL, help=f"(default: {DEFAULT_URL})")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > HIGHEST_PORT:
        raise ArgumentTypeError(f"{text!r} is no port: give a number from 0 to {HIGHEST_PORT}")
    return int(text)


def _whole(lowest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < lowest:
            raise ArgumentTypeError(f"{text!r} is no whole number of at least {lowest}")
        return int(text)

    return read


def _number(lowest: float, highest: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = -1.0
        if not lowest <= number <= highest:
            raise ArgumentTypeError(f"{text!r} is no number from {lowest:g} to {highest:g}")
        return number

    return read


_count, _size = _whole(1), _whole(0)
_seconds, _patience = _number(0.001, 1e9), _number(0, 600)
