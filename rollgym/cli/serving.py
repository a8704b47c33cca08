"""Servers from a terminal: kept up until a signal comes, or looked at while others keep them up."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import msgspec

from rollgym.cli.exit_statuses import INTERRUPTED
from rollgym.cli.server_table import print_servers
from rollgym.cli.streams import complain, say
from rollgym.engine import done_before, run, stopping_on_signals
from rollgym.servers.config import (
    Address,
    ConfigError,
    Configuration,
    Problem,
    RunConfig,
    Settings,
    load_config,
)
from rollgym.servers.launch import (
    START_TIMEOUT,
    Fleet,
    InstanceRecord,
    NoHeadError,
    ServerLostError,
    check_health,
    fetch_records,
    head_listening,
    log_to,
)

LOST = 1
UNHEALTHY = 1


class _Options(msgspec.Struct, frozen=True):
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "warning"
    log_file: str | None = None
    start_timeout: Annotated[float, msgspec.Meta(gt=0)] = START_TIMEOUT


def serve(arguments: Sequence[str]) -> int:
    """Start the servers and keep them up. Raises ConfigError or StartError."""
    config = load_config(arguments, Path.cwd(), known=_Options.__struct_fields__)
    options = _read(config.options.values)
    _begin_logs(options)
    return run(_keep_up(config, options.start_timeout))


def show(arguments: Sequence[str]) -> int:
    """List the servers of a running launcher. Raises ConfigError."""
    head = Configuration(arguments, Path.cwd(), known=()).options().head
    try:
        records, health = run(_look(head))
    except NoHeadError as error:
        complain(f"ng_status: {error}")
        return UNHEALTHY
    print_servers(records, health)
    return 0 if all(answer == "ok" for answer in health.values()) else UNHEALTHY


async def _look(head: Address) -> tuple[list[InstanceRecord], dict[str, str]]:
    records = await fetch_records(head)
    return records, await check_health(records)


async def _keep_up(config: RunConfig, start_timeout: float) -> int:
    stop, head = asyncio.Event(), config.options.head
    fleet = Fleet(config, serving=True, announce=_announce)

    def leave_at_once() -> NoReturn:
        fleet.kill()
        os._exit(INTERRUPTED)

    with stopping_on_signals(stop.set, leave_at_once):
        try:
            async with head_listening(head, fleet.records):
                if not await done_before(stop, fleet.start(start_timeout)):
                    complain("ng_run: stopped before all servers were ready")
                    return INTERRUPTED
                print_servers(fleet.records())
                say(_ready_line(fleet.records(), head.url))
                await done_before(stop, fleet.until_lost())
        except ServerLostError as loss:
            complain(f"ng_run: {loss}; all servers are stopped")
            return LOST
        finally:
            await fleet.stop()
    say("All servers are stopped")
    return 0


def _ready_line(records: Sequence[InstanceRecord], head: str) -> str:
    names = ", ".join(record.name for record in records)
    subject = f"All {len(records)} servers are" if len(records) > 1 else "The server is"
    return f"{subject} ready: {names}; ng_status asks {head}; Ctrl-C stops them"


def _announce(event: str) -> None:
    complain(f"ng_run: {event}")


def _read(values: Settings) -> _Options:
    given = {name: values[name] for name in _Options.__struct_fields__ if name in values}
    try:
        return msgspec.convert(given, _Options)
    except msgspec.ValidationError as error:
        fix = "see `ng_run --help` for what it can be"
        raise ConfigError([Problem("command line", f"an option is wrong: {error}", fix)]) from error


def _begin_logs(options: _Options) -> None:
    file = Path(options.log_file).expanduser() if options.log_file else None
    try:
        log_to(options.log_level, file)
    except OSError as error:
        what = f"log_file: cannot write {options.log_file} ({error.strerror or error})"
        raise ConfigError([Problem("command line", what, "give another path")]) from error
