"""`rollgym sites`: serve the bundled test sites, or write their tasks to a file (serve, tasks).

Only what the options need is imported here, so that `rollgym --help` answers at once.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rollgym.cli.process import say
from webgym.served import add_address_options, serve_until_signal
from webgym.sites import DEFAULT_BASE, DEFAULT_HOST, DEFAULT_PORT


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "The bundled test sites, a small web for visual web agents that needs no network: `serve` "
        "serves them, `tasks` writes their tasks to a file."
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    serve = actions.add_parser("serve", help="serve the sites until Ctrl-C")
    serve.description = "Serve the bundled test sites until Ctrl-C."
    add_address_options(serve, DEFAULT_HOST, DEFAULT_PORT)
    tasks = actions.add_parser("tasks", help="write the tasks to a file")
    tasks.description = "Write the tasks on the test sites as JSONL, with the sites' address."
    tasks.add_argument("output", type=Path, metavar="FILE", help="the file to write")
    split_help = "split of the tasks (default: train)"
    tasks.add_argument("--split", choices=("train", "test"), default="train", help=split_help)
    tasks.add_argument(
        "--base-url",
        metavar="URL",
        default=DEFAULT_BASE,
        help=f"address of the served sites (default: {DEFAULT_BASE})",
    )


def run(arguments: Namespace) -> int:
    """Raises SitesError."""
    if arguments.action == "tasks":
        return _write_tasks(arguments.split, arguments.base_url, arguments.output)
    # Imported here rather than above, so that --help answers at once.
    from rollgym.engine import run as run_loop  # noqa: PLC0415
    from webgym.sites.application import serving  # noqa: PLC0415

    server = serving(arguments.host, arguments.port)
    return run_loop(
        serve_until_signal(server, lambda url: f"The test sites are at {url}/ until Ctrl-C")
    )


def _write_tasks(split: str, base_url: str, output: Path) -> int:
    import msgspec  # noqa: PLC0415

    from webgym.sites.errors import SitesError  # noqa: PLC0415
    from webgym.sites.tasks.task import load_tasks  # noqa: PLC0415

    tasks = load_tasks("test" if split == "test" else "train", base_url)
    try:
        output.write_bytes(b"".join(msgspec.json.encode(task) + b"\n" for task in tasks))
    except OSError as error:
        raise SitesError(
            f"cannot write {output} ({error.strerror or error}): choose another file"
        ) from error
    say(f"{len(tasks)} tasks are in {output}")
    return 0
