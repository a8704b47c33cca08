"""The process of one server: `python -m rollgym.servers.launch.child`, started by a launcher.

It reads its order from standard input, starts the server, says so on standard output, and serves
until it is told to stop or its launcher is gone. What plug-ins print goes to standard error, so
that it cannot be mistaken for a report.

*Without its launcher it ends*: at the end of its standard input, noticed by a thread, which also
ends a process whose event loop is blocked; and on Linux by SIGTERM from the kernel, which also ends
one that is still importing. It takes everything along that its plug-in started.
"""

import asyncio
import ctypes
import os
import signal
import sys
import threading
from typing import BinaryIO, NoReturn

import msgspec

from rollgym.engine import run
from rollgym.servers.config import ConfigError
from rollgym.servers.launch.directory import Directory
from rollgym.servers.launch.errors import StartError
from rollgym.servers.launch.local_server import STOP_TIMEOUT, LocalServer, make_server
from rollgym.servers.launch.logs import log_to
from rollgym.servers.launch.messages import Order, Report, line_of
from rollgym.servers.launch.stopping import done_before

NOT_STARTED = 1
_PR_SET_PDEATHSIG = 1


def main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders, reports = _take_standard_streams()
    order = msgspec.json.decode(orders.readline(), type=Order)
    _end_with(order.launcher)
    log_to(order.log_level)
    launcher = _Launcher(orders)
    status = run(_serve(order, launcher, reports))
    if launcher.gone:
        launcher.follow()
    sys.stderr.flush()
    os._exit(status)  # rather than wait for threads that a plug-in left behind


async def _serve(order: Order, launcher: "_Launcher", reports: BinaryIO) -> int:
    directory = Directory(order.urls)
    try:
        server = make_server(order.instance, directory)
        local = LocalServer(server, order.address)
        # From here on there is something to close. Until now SIGTERM ended the process.
        stop = launcher.watch()
        try:
            if await done_before(stop, local.start()):
                _send(reports, Report.of(server, order.settings))
                await stop.wait()
        finally:
            await local.stop()
    except (ConfigError, StartError) as error:
        _send(reports, Report(trouble=str(error)))
        return NOT_STARTED
    finally:
        await directory.close()
    return 0


class _Launcher:
    """The process that started this one, known by the pipe from it."""

    def __init__(self, orders: BinaryIO) -> None:
        self.gone = False
        self._orders = orders

    def watch(self) -> asyncio.Event:
        """Set when the launcher asks to stop, or is gone."""
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        threading.Thread(
            target=self._wait, args=(loop, stop), name="rollgym-launcher", daemon=True
        ).start()
        return stop

    def follow(self) -> None:
        """End this process and all that it started: nobody else is left who could."""
        os.killpg(os.getpgrp(), signal.SIGKILL)

    def _wait(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
        while self._orders.read(1):
            pass
        self.gone = True
        try:
            loop.call_soon_threadsafe(stop.set)
        except RuntimeError:  # the loop has ended, and the process is about to
            return
        threading.Event().wait(STOP_TIMEOUT)
        self.follow()


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes, moved to where no plug-in reads or writes by accident."""
    orders, reports = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return orders, reports


def _end_with(launcher: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != launcher:  # it died before this process could ask for the signal
        os._exit(NOT_STARTED)


def _send(reports: BinaryIO, report: Report) -> None:
    reports.write(line_of(report))
    reports.flush()


if __name__ == "__main__":
    main()
