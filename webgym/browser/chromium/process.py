"""One Chromium: started, watched, and ended with all of its processes.

*Ending.* The profile is thrown away, so a browser has nothing to save, and it is always killed: the
whole process group at once, which takes the same few milliseconds whether it is idle, busy or
stopped. The children are reaped, also those that we inherit if this process is the first of a
container, and then the folder is removed.

*If this process dies* without ending the browser, Chromium sees the end of its pipe and exits, and
its helpers exit with it. A Chromium that hangs at that moment stays; the next start of a server
kills it (`profile.remove_leftovers`).
"""

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Collection
from contextlib import suppress

import msgspec

from rollgym.servers.isolation.process import describe_exit
from rollgym.servers.limit import Limit
from webgym.browser.chromium.command_line import browser_environment, command_line, identity
from webgym.browser.chromium.connection import CallError, ConnectionClosedError, DevToolsConnection
from webgym.browser.chromium.executable import Browser
from webgym.browser.chromium.process_tree import (
    ProcessInfo,
    any_unfinished,
    processes_naming,
    read_groups,
)
from webgym.browser.chromium.profile import ProfileFolder
from webgym.browser.chromium.spawn import OutputTail, SpawnedProcess, spawn
from webgym.browser.chromium.targets import Targets

REAP_TIMEOUT = 2.0
REMOVE_TIMEOUT = 2.0
EXIT_TIMEOUT = 0.5
"""How long the process may take to exit after the end of the pipe."""
_POLL_INTERVAL = 0.01
_SHELL_SIGNAL_BASE = 128

_LOGGER = logging.getLogger(__name__)


class LaunchError(Exception):
    """A browser could not be started. The message includes its output."""


class _Process(msgspec.Struct):
    type: str
    id: int


class _Processes(msgspec.Struct):
    process_info: list[_Process] = msgspec.field(name="processInfo", default_factory=list)


class Chromium:
    """A running browser, made by `launch`. `close` must be called.

    `pid` is the browser's own process. `group` is its process group, whose first process may be
    a shell that the browser was started through.
    """

    def __init__(self, browser: Browser, profile: ProfileFolder, spawned: SpawnedProcess) -> None:
        """For `launch` only."""
        self.group = self.pid = spawned.pid
        self.connection = DevToolsConnection(spawned.incoming, spawned.outgoing)
        self.targets = Targets(self.connection, identity(browser))
        self._browser = browser
        self._profile = profile
        self._output = OutputTail(spawned.output)
        self._zygotes: set[int] = set()
        self._outside_group: set[int] = set()
        self._exit_status: int | None = None
        self._all_gone = False
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def launch(cls, browser: Browser, deadline: float) -> "Chromium":
        """Start a browser and wait until it answers. Raises LaunchError, and cleans up."""
        seconds = deadline - asyncio.get_running_loop().time()
        try:
            chromium = await cls._spawn(browser)
        except (OSError, subprocess.SubprocessError) as error:
            raise LaunchError(f"{browser.path} cannot be started: {error}") from error
        try:
            await chromium.wait_until_ready(deadline, seconds)
        except BaseException:
            chromium.kill()
            await chromium.close()
            raise
        return chromium

    @classmethod
    async def _spawn(cls, browser: Browser) -> "Chromium":
        profile = ProfileFolder()
        try:
            command = await asyncio.to_thread(command_line, browser, profile.user_data)
            spawned = spawn(command, browser_environment(os.environ, profile.path))
        except BaseException:
            profile.remove()
            raise
        return cls(browser, profile, spawned)

    def has_ended(self) -> bool:
        """Whether the process that was started has exited."""
        self._reap()
        return self._exit_status is not None or self._all_gone

    def is_whole(self, processes: Collection[ProcessInfo]) -> bool:
        """Whether all zygotes are still among its processes.

        Chromium restarts most of its helpers, but without a zygote it cannot start a page process:
        it still answers, but no page opens.
        """
        for process in processes:
            if process.kind == "zygote" and process.parent == self.pid:
                self._zygotes.add(process.pid)
        return self._zygotes <= {process.pid for process in processes}

    async def ping(self, deadline: float) -> None:
        """Returns when the browser's main thread answers.

        Raises TimeoutError, ConnectionClosedError.
        """
        with suppress(CallError):
            await self.connection.call("Browser.getVersion", deadline=deadline)

    async def how_it_ended(self) -> str:
        """How the browser ended, in words, after the end of the pipe: for instance "was killed"."""
        with suppress(TimeoutError), Limit(EXIT_TIMEOUT):
            while not self.has_ended():  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(_POLL_INTERVAL)
        return describe_exit(self._exit_status)

    def kill(self) -> None:
        """Kill all of its processes now. `close` must still be called."""
        self._reap()
        if not self._all_gone:
            # macOS denies permission if only zombies are left.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.group, signal.SIGKILL)

    async def close(self) -> None:
        """Kill it, reap it, remove its folder. Bounded; continues when the caller is cancelled."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def wait_until_ready(self, deadline: float, seconds: float) -> None:
        """For `launch` only: wait until it answers. Raises LaunchError."""
        try:
            await self._open_connection()
            await self.targets.start(deadline)
            self.pid = await self._browser_pid(deadline)
            if self._browser.kind == "full":
                self._outside_group = await asyncio.to_thread(self._find_outside_group)
        except TimeoutError:
            self.kill()
            raise await self._launch_error(f"did not answer within {seconds:.1f} s") from None
        except CallError as error:
            raise await self._launch_error(f"rejected a DevTools call: {error}") from error
        except ConnectionClosedError:
            how = await self.how_it_ended()
            self.kill()
            raise await self._launch_error(f"{how} before it answered") from None

    async def _open_connection(self) -> None:
        """Not cancelled half-way, so that it is always clear which side closes the pipes."""
        opening = asyncio.ensure_future(self.connection.open())
        try:
            await asyncio.shield(opening)
        finally:
            await asyncio.wait({opening})

    async def _browser_pid(self, deadline: float) -> int:
        try:
            answer = await self.connection.call("SystemInfo.getProcessInfo", deadline=deadline)
        except CallError:
            return self.group
        processes = msgspec.json.decode(answer, type=_Processes).process_info
        return next((process.id for process in processes if process.type == "browser"), self.group)

    async def _launch_error(self, what: str) -> LaunchError:
        text = await self._output.complete(EXIT_TIMEOUT)
        output = f"; its last output:\n{text}" if text else ""
        return LaunchError(f"{self._browser.path} {what}{output}")

    async def _close(self) -> None:
        self.kill()
        self.connection.close()
        try:
            with Limit(REAP_TIMEOUT):
                await self._all_dead()
                await self._end_outside_group()
        except OSError:  # a TimeoutError is one
            _LOGGER.exception(
                "browser %d was killed %g s ago, but some of its processes still exist; the system "
                "probably holds them in the middle of an operation",
                self.pid,
                REAP_TIMEOUT,
            )
        self._output.close()
        try:
            with Limit(REMOVE_TIMEOUT):
                await asyncio.to_thread(self._profile.remove)
        except TimeoutError:
            _LOGGER.warning("%s is still being removed", self._profile.path)

    async def _all_dead(self) -> None:
        """Returns when all processes are dead and our children among them are reaped."""
        while not self._reap():
            if not await asyncio.to_thread(any_unfinished, self.group):
                self._reap()
                return
            await asyncio.sleep(_POLL_INTERVAL)

    def _find_outside_group(self) -> set[int]:
        """Processes outside of the group: the crash handlers that a full Chromium always starts."""
        named = set(processes_naming(str(self._profile.path)))
        return named - {process.pid for process in read_groups([self.group])[self.group]}

    async def _end_outside_group(self) -> None:
        """They exit with the browser, but may have become children of this process."""
        if self._outside_group:
            left = await asyncio.to_thread(processes_naming, str(self._profile.path))
            for pid in self._outside_group.intersection(left):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        while self._outside_group:
            self._outside_group = {pid for pid in self._outside_group if not _is_reaped(pid)}
            await asyncio.sleep(_POLL_INTERVAL)

    def _reap(self) -> bool:
        """Reap the processes of the group that ended. True if none is left."""
        if self._all_gone:
            return True
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-self.group, os.WNOHANG)
                if pid == 0:
                    return False
                if pid == self.group:
                    self._exit_status = _exit_status(status)
        try:
            os.killpg(self.group, 0)
        except (ProcessLookupError, PermissionError):
            self._all_gone = True
        return self._all_gone


def _is_reaped(pid: int) -> bool:
    """True also for a process that is not our child."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _exit_status(status: int) -> int:
    """Negative for a signal, also if a shell reports it as a number above 128."""
    exit_code = os.waitstatus_to_exitcode(status)
    return _SHELL_SIGNAL_BASE - exit_code if exit_code > _SHELL_SIGNAL_BASE else exit_code
