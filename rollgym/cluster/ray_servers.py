"""Servers on a Ray cluster: each process of a server is the child of an actor.

A process that dies is started again by the same actor, at the same address. An actor that was lost,
with its node or alone, is replaced by one that Ray places where there is room; the launcher then
tells everybody the new address. The actors belong to the launcher and end with it.
"""

import asyncio
import contextlib
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

import rollgym
from rollgym.cluster.ray_server_actor import PlaceReport, ProcessEvent, RayServer
from rollgym.servers.config.instances import Address, ServerInstance
from rollgym.servers.isolation.process import describe_exit
from rollgym.servers.launch.logs import relay
from rollgym.servers.launch.records import TAIL_LINES, StartError, StartRequest, StartResult
from rollgym.servers.launch.server_process import END_TIMEOUT, KILL_TIMEOUT

THREADS = 4


class RayServerPlaces:
    """Finds places for servers. `host` is the launcher's address for nodes on other machines.

    `address` is where all servers listen; None is the address of their node.
    """

    def __init__(self, ray: Any, host: str | None, address: str | None) -> None:
        self.host = host
        self._ray = ray
        self._address = address

    def place(
        self, instance: ServerInstance, number: int, moved: Callable[[Address], None]
    ) -> "RayPlace":
        """A place for a process of a server. `moved` is called with each new address."""
        return RayPlace(self._ray, instance, number, moved, self._address)


class RayPlace:
    """The place of one process of a server, and those that replace it."""

    def __init__(
        self,
        ray: Any,
        instance: ServerInstance,
        number: int,
        moved: Callable[[Address], None],
        address: str | None,
    ) -> None:
        self._ray = ray
        self._address = address
        self._resources = dict(instance.ray_resources)
        self._name = instance.name
        self._title = f"{instance.name} {number}" if instance.processes > 1 else instance.name
        self._moved = moved
        self._starts = 0
        self._actor: Any = None
        self._report: PlaceReport | None = None

    @property
    def node(self) -> str:
        return self._report.node if self._report else ""

    async def find(self) -> PlaceReport:
        """Wait until Ray has a place, unless there is one already. Raises StartError."""
        if self._report is not None:
            return self._report
        self._starts += 1
        resources = dict(self._resources)
        self._actor = (
            self._ray.remote(RayServer)
            .options(
                name=f"rollgym server {self._title}, start {self._starts}",
                num_cpus=resources.pop("CPU", 0),
                num_gpus=resources.pop("GPU", 0),
                resources=resources or None,
                max_restarts=0,
                max_concurrency=THREADS,
                scheduling_strategy="SPREAD",
            )
            .remote(self._address)
        )
        try:
            encoded = await asyncio.wrap_future(self._actor.report.remote().future())
        except asyncio.CancelledError:
            self._forget()
            raise
        except Exception as error:
            self._forget()
            raise StartError(f"{self._name} has no place: {_reason(error)}") from error
        report = msgspec.json.decode(encoded, type=PlaceReport)
        if report.version != rollgym.__version__:
            self._forget()
            raise StartError(
                f"{self._name} cannot run on {report.node}: it has rollgym {report.version}, and "
                f"this machine {rollgym.__version__}"
            )
        self._report = report
        self._moved(report.address)
        return report

    @property
    def wanted(self) -> str:
        """What it needs, for a sentence."""
        if not self._resources:
            return "a node of the Ray cluster"
        amounts = ", ".join(f"{name}: {amount:g}" for name, amount in self._resources.items())
        return f"a node of the Ray cluster with {{{amounts}}} free, its ray_resources"

    def child(self, request: StartRequest) -> "RayChild":
        return RayChild(self, request)

    def call(self, method: str, *arguments: object) -> None:
        """Call the actor, and do not wait."""
        if self._actor is not None:
            with contextlib.suppress(Exception):  # it may be lost
                getattr(self._actor, method).remote(*arguments)

    def stream(self, request: bytes) -> Any:
        """The events of a new process."""
        return self._actor.serve.options(
            num_returns="streaming", name=f"serve {self._title}"
        ).remote(request)

    def events(self, stream: Any) -> Iterator[bytes]:
        """The events, in a thread. Raises what Ray does where the actor is lost."""
        for reference in stream:
            yield self._ray.get(reference)

    def lose(self) -> None:
        """The actor was lost: the next process gets another place."""
        self._forget()

    def close(self) -> None:
        """End the actor, and with it the process."""
        self._forget()

    def _forget(self) -> None:
        actor, self._actor, self._report = self._actor, None, None
        if actor is not None:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.kill(actor)


class RayChild:
    """One process of a server on the cluster, as the launcher sees it."""

    def __init__(self, place: RayPlace, request: StartRequest) -> None:
        self.pid: int | None = None
        self._place = place
        self._request = request
        self._name = request.instance.name
        self._loop = asyncio.get_running_loop()
        self._first_line: asyncio.Future[str] = self._loop.create_future()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._spawned = False
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    @property
    def tail(self) -> list[str]:
        """The last lines it wrote."""
        return list(self._tail) if self._spawned else [f"it waits for {self._place.wanted}"]

    async def spawn(self) -> None:
        """Raises StartError where there is no place for it."""
        report = await self._place.find()
        request = msgspec.structs.replace(
            self._request, address=report.address, launcher=report.process
        )
        stream = self._place.stream(request.to_line())
        self._spawned = True
        threading.Thread(
            target=self._listen, args=(stream,), name=f"events of {self._name}", daemon=True
        ).start()

    async def ready(self) -> StartResult:
        """Its result when it is ready. Raises StartError when it failed to start, or ended."""
        either: set[asyncio.Future[str]] = {self._first_line, self._ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._first_line.done():
            raise StartError(f"{self._name} did not start: its process {self._ended.result()}")
        result = msgspec.json.decode(self._first_line.result(), type=StartResult)
        if result.error is not None:
            raise StartError(result.error)
        return result

    async def exited(self) -> str:
        """Wait for its end; returns how it ended."""
        await asyncio.wait({self._ended})
        return self._ended.result()

    async def end(self) -> None:
        """Terminate it, and kill it where it does not end in time."""
        for number, seconds in ((signal.SIGTERM, END_TIMEOUT), (signal.SIGKILL, KILL_TIMEOUT)):
            if not self._spawned or self._ended.done():
                return
            self._place.call("end", int(number))
            await asyncio.wait({self._ended}, timeout=seconds)

    def kill(self) -> None:
        """Kill it and everything in its session, now."""
        self._place.close()

    def send(self, line: bytes) -> None:
        """Write a line to its standard input."""
        self._place.call("send", line)

    def _listen(self, stream: Any) -> None:
        lost = "ended"
        try:
            for encoded in self._place.events(stream):
                event = msgspec.json.decode(encoded, type=ProcessEvent)
                self._loop.call_soon_threadsafe(self._take, event)
        except RuntimeError:  # the loop is closed
            return
        except Exception as error:  # noqa: BLE001 - Ray has many ways to say it
            lost = f"was lost ({_reason(error)})"
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lose, lost)

    def _take(self, event: ProcessEvent) -> None:
        if event.started is not None:
            self.pid = event.started
        elif event.result is not None and not self._first_line.done():
            self._first_line.set_result(event.result)
        elif event.line is not None:
            self._tail.extend(relay(self._name, self.pid or 0, event.line).splitlines())
        elif event.ended is not None and not self._ended.done():
            self._ended.set_result(describe_exit(event.ended))

    def _lose(self, how: str) -> None:
        if not self._ended.done():
            self._place.lose()
            self._ended.set_result(how)


def _reason(error: BaseException) -> str:
    first, *_ = [*filter(None, map(str.strip, str(error).splitlines())), ""]
    return f"{type(error).__name__}: {first[:300]}"
