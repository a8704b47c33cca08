"""`python -m webgym.miniwob`: serve MiniWoB++ until Ctrl-C, or write its tasks to a file."""

import asyncio
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import NoReturn

from rollgym.cli.leaving import leave
from rollgym.cli.streams import say

LOOPBACK = "127.0.0.1"
USUAL_PORT = 7310
HIGHEST_PORT = 65_535
MOST_SEEDS = 100_000


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Serve the tasks of MiniWoB++ as web tasks with their own rewards until Ctrl-C. They need "
        "no network once their pages are here: --fetch gets them."
    )
    parser.add_argument("--host", default=LOOPBACK, help=f"where to listen (default: {LOOPBACK})")
    parser.add_argument(
        "--port",
        type=_port,
        default=USUAL_PORT,
        help=f"(default: {USUAL_PORT}; 0: any that is free)",
    )
    parser.add_argument("--folder", type=Path, help="the package miniwob, if it is elsewhere")
    parser.add_argument("--fetch", action="store_true", help="get the pages (2 MB), then leave")
    parser.add_argument(
        "--write-tasks", type=Path, metavar="FILE", help="write a task file, then leave"
    )
    parser.add_argument("--base-url", metavar="URL", help="of the server, for the task file")
    parser.add_argument(
        "--seeds", type=_seeds, default=range(1), help="for the task file: 7 or 0-99 (default: 0)"
    )
    parser.add_argument(
        "--tasks",
        type=_names,
        metavar="NAMES",
        help="for the task file: such as a,b (default: all that can be solved)",
    )
    parser.add_argument(
        "--zoom", type=float, default=1.0, help="for the task file: enlarge the pages (default: 1)"
    )


def run(arguments: Namespace) -> int:
    """Serve until a signal ends it, or do what the options say instead. Raises MiniWobError."""
    if arguments.fetch:
        from webgym.miniwob.package import provide_package  # noqa: PLC0415 - not for --help

        say(f"The pages of MiniWoB++ are in {provide_package().folder}")
        return 0
    if arguments.write_tasks:
        return _write_tasks(arguments)
    from rollgym.engine import run as run_loop  # noqa: PLC0415

    return run_loop(_serve(arguments.host, arguments.port, arguments.folder))


async def _serve(host: str, port: int, folder: Path | None) -> int:
    # Here rather than above, so that --help answers at once.
    from rollgym.servers.launch import stopping_on_signals  # noqa: PLC0415
    from webgym.miniwob.package import find_package  # noqa: PLC0415
    from webgym.miniwob.server import serving  # noqa: PLC0415

    stop = asyncio.Event()
    with stopping_on_signals(stop, _leave_at_once):
        async with serving(host, port, find_package(folder)) as url:
            say(f"MiniWoB++ is at {url}/ until Ctrl-C")
            await stop.wait()
    return 0


def _write_tasks(arguments: Namespace) -> int:
    import msgspec  # noqa: PLC0415

    from webgym.miniwob.catalogue import Catalogue  # noqa: PLC0415
    from webgym.miniwob.package import find_package  # noqa: PLC0415
    from webgym.miniwob.rows import load_tasks  # noqa: PLC0415

    base_url = arguments.base_url or f"http://{arguments.host}:{arguments.port}"
    rows = load_tasks(
        base_url,
        arguments.seeds,
        arguments.tasks,
        zoom=arguments.zoom,
        catalogue=Catalogue(find_package(arguments.folder)),
    )
    arguments.write_tasks.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    say(f"{len(rows)} tasks are in {arguments.write_tasks}")
    return 0


def _leave_at_once() -> NoReturn:
    leave(0)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > HIGHEST_PORT:
        raise ArgumentTypeError(f"{text!r} is no port: give a number from 0 to {HIGHEST_PORT}")
    return int(text)


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    parts = (first, last or first)
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ArgumentTypeError(f"{text!r} names no seeds: give one as 7, or several as 0-99")
    seeds = range(int(parts[0]), int(parts[1]) + 1)
    if not 0 < len(seeds) <= MOST_SEEDS:
        raise ArgumentTypeError(f"{text!r} must be 1 to {MOST_SEEDS} seeds, as 0-99")
    return seeds


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
