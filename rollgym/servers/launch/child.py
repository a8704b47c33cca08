"""The process of one server: `python -m rollgym.servers.launch.child`, started by a launcher.

It reads a `StartRequest` from standard input, starts the server, writes a `StartResult` to standard
output, and serves until it gets SIGTERM or its launcher ends. What plug-ins print goes to standard
error, so that it cannot be mistaken for the result.

*It ends with its launcher*: at the end of its standard input, noticed by a thread, which also ends
a process whose event loop is blocked; and on Linux by SIGTERM from the kernel, which also ends one
that is still importing. It kills everything that its plug-in started.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NoReturn

import msgspec

from rollgym.engine import done_before, run
from rollgym.servers.config.instances import ServerInstance
from rollgym.servers.config.plugins import load_server_class, located
from rollgym.servers.config.problems import ConfigError
from rollgym.servers.endpoints.settings import divided_limits, smallest_limit
from rollgym.servers.isolation.child import end_with_parent, take_standard_streams
from rollgym.servers.launch.addresses import Directory
from rollgym.servers.launch.local_server import STOP_TIMEOUT, LocalServer, make_server
from rollgym.servers.launch.logs import log_to
from rollgym.servers.launch.records import Moved, StartError, StartRequest, StartResult
from rollgym.servers.replicas import ReplicaRoute
from rollgym.servers.server import ServerKind

NOT_STARTED = 1


def main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, results = take_standard_streams()
    request = StartRequest.from_line(requests.readline())
    end_with_parent(request.launcher, signal.SIGTERM)
    log_to(request.log_level)
    launcher = ParentProcess(requests)
    status = run(_serve(request, launcher, results))
    if launcher.ended:
        launcher.kill_all()
    sys.stderr.flush()
    os._exit(status)  # rather than wait for threads that a plug-in left behind


async def _serve(request: StartRequest, launcher: "ParentProcess", results: BinaryIO) -> int:
    directory = Directory(request.urls, request.tokens)
    try:
        instance = located(request.instance, Path.cwd())
        server = make_server(_with_own_limits(instance, request), directory)
        result = StartResult.of(server, request.instance.settings)
        token = request.tokens.get(request.instance.name)
        route = _route(request, directory)
        local = LocalServer(server, request.address, result, token, route)
        # From here on there is something to close. Until now SIGTERM ended the process.
        stop = launcher.watch(lambda line: directory.move(Moved.from_line(line).urls))
        try:
            if await done_before(stop, local.start()):
                _send(results, result)
                await stop.wait()
        finally:
            await local.stop()
    except (ConfigError, StartError) as error:
        _send(results, StartResult(error=str(error)))
        return NOT_STARTED
    finally:
        await directory.close()
    return 0


def _with_own_limits(instance: ServerInstance, request: StartRequest) -> ServerInstance:
    """The instance with this replica's part of the limits of its endpoints. Raises StartError.

    A model that each replica has in its own memory has its own limits.
    """
    count = len(request.urls[instance.name])
    if instance.kind is not ServerKind.MODEL or count == 1 or load_server_class(instance).once:
        return instance
    least = smallest_limit(instance.settings)
    if least is not None and least < count:
        raise StartError(
            f"{instance.name}: max_concurrency is {least}, and its {count} processes would have "
            f"more requests together: lower `processes` to at most {least}"
        )
    settings = divided_limits(instance.settings, request.replica, count)
    return msgspec.structs.replace(instance, settings=settings)


def _route(request: StartRequest, directory: Directory) -> ReplicaRoute | None:
    name = request.instance.name
    if len(request.urls[name]) == 1:
        return None
    return ReplicaRoute(directory.client(name), request.replica)


class ParentProcess:
    """The process that started this one, watched through the pipe from it."""

    def __init__(self, requests: BinaryIO) -> None:
        self.ended = False
        self._requests = requests

    def watch(self, take: Callable[[bytes], object] = lambda _: None) -> asyncio.Event:
        """An event that is set when the launcher stops this process, or has ended.

        `take` gets each further line that the launcher sends.
        """
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stop.set)
        threading.Thread(
            target=self._wait, args=(loop, stop, take), name="rollgym-launcher", daemon=True
        ).start()
        return stop

    def kill_all(self) -> None:
        """Kill this process and everything that it started, since the launcher no longer can."""
        os.killpg(os.getpgrp(), signal.SIGKILL)

    def _wait(
        self,
        loop: asyncio.AbstractEventLoop,
        stop: asyncio.Event,
        take: Callable[[bytes], object],
    ) -> None:
        try:
            while line := self._requests.readline():
                loop.call_soon_threadsafe(take, line)
            self.ended = True
            loop.call_soon_threadsafe(stop.set)
        except RuntimeError:  # the loop has ended, and the process is about to
            return
        threading.Event().wait(STOP_TIMEOUT)
        self.kill_all()


def _send(results: BinaryIO, result: StartResult) -> None:
    results.write(result.to_line())
    results.flush()


if __name__ == "__main__":
    main()
