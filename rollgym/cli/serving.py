"""`ng_run` and `ng_status` at work: servers run until a signal comes, or are listed as a table."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import msgspec

from rollgym.cli.process import INTERRUPTED, aligned, say, say_error
from rollgym.cluster.settings import ClusterSettings, server_places
from rollgym.engine import done_before, run, stopping_on_signals
from rollgym.servers.config.loading import Configuration, RunConfig, RunOptions, load_config
from rollgym.servers.config.overrides import read_options
from rollgym.servers.config.plugins import load_server_class, load_settings
from rollgym.servers.config.problems import ConfigError, Problem, Settings
from rollgym.servers.launch.fleet import START_TIMEOUT, Fleet
from rollgym.servers.launch.head import check_health, fetch_records, head_listening
from rollgym.servers.launch.logs import log_to
from rollgym.servers.launch.places import ServerPlaces
from rollgym.servers.launch.records import InstanceRecord, NoHeadError, ServerLostError

LOST = 1
UNHEALTHY = 1
_TITLES = ("server", "type", "implementation", "url", "status")
_DROPPED_FIRST = ("type", "implementation")


class ServeOptions(msgspec.Struct, frozen=True):
    """The options of `ng_run` besides its servers."""

    log_level: Literal["debug", "info", "warning", "error", "critical"] = "warning"
    log_file: str | None = None
    start_timeout: Annotated[float, msgspec.Meta(gt=0)] = START_TIMEOUT
    dry_run: bool = False
    launcher: Literal["ray"] | None = None
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if self.ray_address is not None and self.launcher is None:
            raise ValueError("ray_address needs launcher=ray")

    @property
    def cluster(self) -> ClusterSettings | None:
        """The cluster that runs the servers; None for this machine."""
        return ClusterSettings.of(self.launcher, None, self.ray_address, 1.0)


def serve(arguments: Sequence[str]) -> int:
    """Start the servers and keep them running. Raises ConfigError or StartError."""
    config = load_config(arguments, Path.cwd(), known=ServeOptions.__struct_fields__)
    options = _read(config.options.values)
    if options.dry_run:
        for instance in config.instances:
            load_settings(instance, load_server_class(instance))
        names = ", ".join(each.name for each in (*config.instances, *config.external))
        say(f"Dry run: everything was checked, and nothing was started. Servers: {names}")
        return 0
    _start_logs(options)
    if options.cluster is not None:
        apart = (msgspec.structs.replace(each, isolated=True) for each in config.instances)
        config = msgspec.structs.replace(config, instances=tuple(apart))
    return run(_serve(config, options.start_timeout, options.cluster))


def show(arguments: Sequence[str]) -> int:
    """List the servers of a running launcher. Raises ConfigError."""
    options = Configuration(arguments, Path.cwd(), known=()).options()
    try:
        records, health = run(_check(options))
    except NoHeadError as error:
        say_error(f"ng_status: {error}")
        return UNHEALTHY
    print_servers(records, health)
    return 0 if all(answer == "ok" for answer in health.values()) else UNHEALTHY


async def _check(options: RunOptions) -> tuple[list[InstanceRecord], dict[str, str]]:
    records = await fetch_records(options.head, options.token)
    return records, await check_health(records, options.token)


async def _serve(config: RunConfig, start_timeout: float, cluster: ClusterSettings | None) -> int:
    async with server_places(cluster) as places:
        return await _serve_in(places, config, start_timeout)


async def _serve_in(places: ServerPlaces | None, config: RunConfig, start_timeout: float) -> int:
    stop, head = asyncio.Event(), config.options.head
    fleet = Fleet(
        config,
        serving=True,
        announce=lambda event: say_error(f"ng_run: {event}"),
        places=places,
    )

    def stop_at_once() -> NoReturn:
        fleet.kill()
        os._exit(INTERRUPTED)

    with stopping_on_signals(stop.set, stop_at_once):
        try:
            async with head_listening(head, fleet.records, config.options.token):
                if not await done_before(stop, fleet.start(start_timeout)):
                    say_error("ng_run: stopped before all servers were ready")
                    return INTERRUPTED
                print_servers(fleet.records())
                say(_ready_line(fleet.records(), head.url))
                await done_before(stop, fleet.until_lost())
        except ServerLostError as loss:
            say_error(f"ng_run: {loss}; all servers are stopped")
            return LOST
        finally:
            await fleet.stop()
    say("All servers are stopped")
    return 0


def _ready_line(records: Sequence[InstanceRecord], head: str) -> str:
    names = ", ".join(record.name for record in records)
    subject = f"All {len(records)} servers are" if len(records) > 1 else "The server is"
    return f"{subject} ready: {names}. `ng_status` lists them (head at {head}). Ctrl-C stops them."


def _read(values: Settings) -> ServeOptions:
    given = {name: values[name] for name in ServeOptions.__struct_fields__ if name in values}
    return read_options(given, ServeOptions, "ng_run")


def _start_logs(options: ServeOptions) -> None:
    file = Path(options.log_file).expanduser() if options.log_file else None
    try:
        log_to(options.log_level, file)
    except OSError as error:
        what = f"log_file: cannot write {options.log_file} ({error.strerror or error})"
        raise ConfigError([Problem("command line", what, "give another path")]) from error


def print_servers(
    records: Sequence[InstanceRecord], health: Mapping[str, str] | None = None
) -> None:
    """Print a line for each process of each server, as a table on a terminal.

    `health` has the health of each URL.
    """
    titles = _TITLES if health is None else (*_TITLES, "health")
    rows = [row for record in records for row in _rows(record, health)]
    if sys.stdout.isatty():
        _draw(titles, rows)
    else:
        say("\n".join(aligned([titles, *rows])))


def _rows(record: InstanceRecord, health: Mapping[str, str] | None) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, replica in enumerate(record.replicas):
        name = f"{record.name} [{number}]" if len(record.replicas) > 1 else record.name
        status = str(replica.status)
        if replica.restarts:
            status = f"{status} (restarts: {replica.restarts})"
        row = (name, str(record.server_type), record.implementation, replica.url, status)
        rows.append(row if health is None else (*row, health.get(replica.url, "")))
    return rows


def _draw(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - costs time where nothing is drawn
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    columns = _fitting([titles, *rows], console.width)
    table = Table(*(title for title, *_ in columns), pad_edge=False)
    for row in zip(*(cells for _, *cells in columns), strict=True):
        table.add_row(*(Text(cell, overflow="fold") for cell in row))
    with console.capture() as drawn:
        console.print(table)
    say(drawn.get().rstrip("\n"))


def _fitting(rows: Sequence[Sequence[str]], width: int) -> list[tuple[str, ...]]:
    """The columns that fit a terminal: names and URLs come before the others."""
    columns = list(zip(*rows, strict=True))
    for title in _DROPPED_FIRST:
        # Two spaces and a line between columns, and a line on either side.
        if sum(max(map(len, column)) + 3 for column in columns) - 1 <= width:
            break
        columns = [column for column in columns if column[0] != title]
    return columns
