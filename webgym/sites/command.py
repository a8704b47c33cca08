"""`rollgym sites`: serve the bundled test sites, or write their tasks to a file (serve, tasks).

Only what the options need is imported here, so that `rollgym --help` answers at once.
"""

import asyncio
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import NoReturn

from rollgym.cli.leaving import leave
from rollgym.cli.streams import say
from webgym.sites.names import DEFAULT_BASE, DEFAULT_HOST, DEFAULT_PORT

HIGHEST_PORT = 65_535


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "The bundled test sites, a small web of our own for visual web agents that needs no "
        "network: `serve` serves them, `tasks` writes what to do on them."
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    _configure_serve(actions.add_parser("serve", help="serve the sites until Ctrl-C"))
    _configure_tasks(actions.add_parser("tasks", help="write the tasks to a file"))


def run(arguments: Namespace) -> int:
    """Raises SitesError."""
    if arguments.action == "tasks":
        return _write_tasks(arguments.split, arguments.base_url, arguments.output)
    from rollgym.engine import run as run_loop  # noqa: PLC0415 - --help does not need it

    return run_loop(_serve(arguments.host, arguments.port))


def _configure_serve(parser: ArgumentParser) -> None:
    parser.description = "Serve the bundled test sites until Ctrl-C."
    add = parser.add_argument
    add("--host", default=DEFAULT_HOST, help=f"where to listen (default: {DEFAULT_HOST})")
    usual = f"(default: {DEFAULT_PORT}; 0: any that is free)"
    add("--port", type=_port, default=DEFAULT_PORT, help=usual)


def _configure_tasks(parser: ArgumentParser) -> None:
    parser.description = "Write the tasks on the test sites as JSONL, with the sites' address."
    add = parser.add_argument
    add("output", type=Path, metavar="FILE", help="the file to write")
    add("--split", choices=("train", "test"), default="train", help="(default: train)")
    add(
        "--base-url",
        metavar="URL",
        default=DEFAULT_BASE,
        help=f"of the served sites (default: {DEFAULT_BASE})",
    )


async def _serve(host: str, port: int) -> int:
    # Here rather than above, so that --help answers at once.
    from rollgym.servers.launch import stopping_on_signals  # noqa: PLC0415
    from webgym.sites.server import serving  # noqa: PLC0415

    stop = asyncio.Event()
    with stopping_on_signals(stop, _leave_at_once):
        async with serving(host, port) as url:
            say(f"The test sites are at {url}/ until Ctrl-C")
            await stop.wait()
    return 0


def _write_tasks(split: str, base_url: str, output: Path) -> int:
    import msgspec  # noqa: PLC0415

    from webgym.sites.errors import SitesError  # noqa: PLC0415
    from webgym.sites.tasks import load_tasks  # noqa: PLC0415

    tasks = load_tasks("test" if split == "test" else "train", base_url)
    try:
        output.write_bytes(b"".join(msgspec.json.encode(task) + b"\n" for task in tasks))
    except OSError as error:
        raise SitesError(
            f"cannot write {output} ({error.strerror or error}): choose another file"
        ) from error
    say(f"{len(tasks)} tasks are in {output}")
    return 0


def _leave_at_once() -> NoReturn:
    leave(0)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > HIGHEST_PORT:
        raise ArgumentTypeError(f"{text!r} is no port: give a number from 0 to {HIGHEST_PORT}")
    return int(text)
