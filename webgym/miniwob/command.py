"""`rollgym miniwob`: serve MiniWoB++ until Ctrl-C, or write its tasks to a file.

Only what the options need is imported here, so that `rollgym --help` answers at once.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from rollgym.cli.process import say
from webgym.miniwob import DEFAULT_HOST, DEFAULT_PORT
from webgym.served import add_address_options, serve_until_signal

MAX_SEEDS = 100_000


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Serve the tasks of MiniWoB++ as web tasks with their own rewards until Ctrl-C. They need "
        "no network once their pages are on this machine: --fetch gets them."
    )
    add_address_options(parser, DEFAULT_HOST, DEFAULT_PORT)
    add = parser.add_argument
    add("--folder", type=Path, help="folder of the package miniwob (default: look for it)")
    add("--fetch", action="store_true", help="fetch the pages (2 MB) and exit")
    add("--write-tasks", type=Path, metavar="FILE", help="write a task file and exit")
    add("--base-url", metavar="URL", help="address of the server, for the task file")
    add("--seeds", type=_seeds, default=range(1), help="for the task file: 7 or 0-99 (default: 0)")
    add(
        "--tasks",
        type=_names,
        metavar="NAMES",
        help="for the task file: names such as a,b (default: all that can be solved)",
    )
    zoom_help = "for the task file: enlarge the pages by this factor (default: 1)"
    add("--zoom", type=float, default=1.0, help=zoom_help)
    add(
        "--no-instructions",
        action="store_true",
        help="for the task file: do not open the pages in Chromium to read their instructions",
    )


def run(arguments: Namespace) -> int:
    """Serve until a signal, or fetch the pages, or write the task file. Raises MiniWobError."""
    # Imported here rather than above, so that --help answers at once.
    from webgym.miniwob.package import find_package, provide_package  # noqa: PLC0415

    if arguments.fetch:
        say(f"The pages of MiniWoB++ are in {provide_package().folder}")
        return 0
    if arguments.write_tasks:
        return _write_tasks(arguments)
    from rollgym.engine import run as run_loop  # noqa: PLC0415
    from webgym.miniwob.application import serving  # noqa: PLC0415

    server = serving(arguments.host, arguments.port, find_package(arguments.folder))
    return run_loop(
        serve_until_signal(server, lambda url: f"MiniWoB++ is ready at {url}/ until Ctrl-C")
    )


def _write_tasks(arguments: Namespace) -> int:
    import msgspec  # noqa: PLC0415

    from rollgym.engine import run as run_loop  # noqa: PLC0415
    from webgym.miniwob.instructions import instructed  # noqa: PLC0415
    from webgym.miniwob.package import Catalogue, find_package  # noqa: PLC0415
    from webgym.miniwob.rows import MiniWobRow, load_tasks  # noqa: PLC0415

    base_url = arguments.base_url or f"http://{arguments.host}:{arguments.port}"
    package = find_package(arguments.folder)
    catalogue = Catalogue(package)

    def rows_at(url: str) -> list[MiniWobRow]:
        seeds, names = arguments.seeds, arguments.tasks
        return load_tasks(url, seeds, names, zoom=arguments.zoom, catalogue=catalogue)

    if arguments.no_instructions:
        rows = rows_at(base_url)
    else:
        rows = run_loop(instructed(rows_at, base_url, package))
    arguments.write_tasks.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    say(f"{len(rows)} tasks are in {arguments.write_tasks}")
    return 0


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    parts = (first, last or first)
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise ArgumentTypeError(f"{text!r} is not a seed or a range: give 7, or 0-99")
    seeds = range(int(parts[0]), int(parts[1]) + 1)
    if not 0 < len(seeds) <= MAX_SEEDS:
        raise ArgumentTypeError(f"{text!r} must be 1 to {MAX_SEEDS} seeds, as 0-99")
    return seeds


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
