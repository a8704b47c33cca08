"""The servers of a run as a table: drawn on a terminal, plain aligned lines anywhere else."""

import sys
from collections.abc import Mapping, Sequence

from rollgym.cli.streams import say
from rollgym.servers.launch import InstanceRecord

_TITLES = ("server", "type", "implementation", "url", "status")
_MISSED_LEAST = ("type", "implementation")


def print_servers(
    records: Sequence[InstanceRecord], health: Mapping[str, str] | None = None
) -> None:
    """A line for each process of each server. `health` has what its URL answered just now."""
    titles = _TITLES if health is None else (*_TITLES, "health")
    rows = [row for record in records for row in _rows(record, health)]
    if sys.stdout.isatty():
        _draw(titles, rows)
    else:
        say("\n".join(_aligned([titles, *rows])))


def _rows(record: InstanceRecord, health: Mapping[str, str] | None) -> list[tuple[str, ...]]:
    status = str(record.status)
    if record.restarts:
        status = f"{status} (restarts: {record.restarts})"
    rows: list[tuple[str, ...]] = []
    for url in record.urls:
        row = (record.name, str(record.server_type), record.implementation, url, status)
        rows.append(row if health is None else (*row, health.get(url, "")))
    return rows


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


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
    """The columns for a terminal: names and URLs in one piece are worth more than the rest."""
    columns = list(zip(*rows, strict=True))
    for title in _MISSED_LEAST:
        # Two spaces and a line between columns, and a line on either side.
        if sum(max(map(len, column)) + 3 for column in columns) - 1 <= width:
            break
        columns = [column for column in columns if column[0] != title]
    return columns
