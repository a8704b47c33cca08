"""The process of a worker, wherever it was started: `python -m rollgym.cluster.process`, or Ray.

It connects to its driver, which says what to run, and ends with the connection. A local process
also ends at the end of its standard input, noticed by a thread, so it ends when its event loop is
blocked, too.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn, cast

import msgspec

import rollgym
from rollgym.cluster.channel import Channel
from rollgym.cluster.link import Link, LinkHandler, LostDriverError
from rollgym.cluster.messages import Hello, Setup
from rollgym.engine import Worker, run
from rollgym.records import Failure
from rollgym.servers.isolation.child import end_with_parent, take_standard_streams
from rollgym.servers.launch.child import ParentProcess
from rollgym.servers.launch.logs import JsonLines
from rollgym.store import RefusedError

STOP_BOUND = 10.0
"""Seconds for a program to close its servers. The driver kills what takes longer."""

Program = Callable[[bytes, Link], AbstractAsyncContextManager[Worker]]


class Ticket(msgspec.Struct, frozen=True):
    """What a process needs to introduce itself. `address` is a path, or a host and a port."""

    address: str | tuple[str, int]
    token: str
    launch: int
    node: str
    parent: int = 0


async def serve(ticket: Ticket, stop: asyncio.Event | None = None) -> str | None:
    """Work for the driver of a ticket until it ends; returns why the connection was lost.

    An event `stop` ends it too. Raises LostDriverError.
    """
    link = Link()
    hello = Hello(ticket.token, rollgym.__version__, ticket.launch, ticket.node, os.getpid())
    setup = await link.connect(partial(_connect, ticket.address), hello)
    handler = _log_to(link, setup.log_level)
    try:
        working = asyncio.ensure_future(_work(setup, link))
        over = asyncio.ensure_future(link.until_over())
        stopped = asyncio.ensure_future((stop or asyncio.Event()).wait())
        await asyncio.wait({working, over, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for waiting in (over, stopped):
            waiting.cancel()
        if not working.done():
            if stopped.done() or not link.is_running:
                working.cancel()
            await asyncio.wait({working}, timeout=STOP_BOUND)
    finally:
        logging.getLogger().removeHandler(handler)
        link.close()
    return link.lost


async def _connect(address: str | tuple[str, int], channel: Channel) -> None:
    loop = asyncio.get_running_loop()
    if isinstance(address, str):
        await loop.create_unix_connection(lambda: channel, address)
    else:
        await loop.create_connection(lambda: channel, *address)


async def _work(setup: Setup, link: Link) -> None:
    _search(setup.search_path)
    try:
        program = cast("Program", resolve_name(setup.program))
        async with program(setup.options, link) as worker:
            await link.run(worker)
    except RefusedError as error:
        link.refuse(str(error))
    except Exception as error:  # noqa: BLE001 - the program runs the code of plug-ins
        failure = Failure.of(error)
        link.refuse(f"{failure.detail}\n{failure.traceback or ''}".rstrip())


def _search(folders: list[str]) -> None:
    """Find modules where the driver finds them, as far as this machine has the folders."""
    sys.path += [each for each in folders if each not in sys.path and Path(each).is_dir()]


def _log_to(link: Link, level: str) -> logging.Handler:
    handler, root = LinkHandler(link, JsonLines()), logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler


def main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, _ = take_standard_streams()
    line = requests.readline()
    if not line:
        os._exit(0)  # the driver has ended before it had work
    ticket = msgspec.json.decode(line, type=Ticket)
    end_with_parent(ticket.parent, signal.SIGTERM)
    parent = ParentProcess(requests)
    with contextlib.suppress(LostDriverError):  # the driver has ended, or says why itself
        run(_serve_locally(ticket, parent))
    if parent.ended:
        parent.kill_all()
    sys.stderr.flush()
    os._exit(0)  # rather than wait for threads that a plug-in left behind


async def _serve_locally(ticket: Ticket, parent: ParentProcess) -> Any:
    return await serve(ticket, parent.watch())


if __name__ == "__main__":
    main()
