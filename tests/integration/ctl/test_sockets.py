"""The socket of a running collection."""

import asyncio
import json
import os
import socket
import stat
from pathlib import Path

import pytest

from rollgym.ctl import ControlUnreachableError, ask, control_socket, sockets_of
from rollgym.ctl.commands import ControlAnswer, Pause, RetryFailed, ShowStatus
from rollgym.ctl.sockets import LONGEST_PATH
from rollgym.engine import Control, State, WorkItem, collect, run
from rollgym.records import Completed, Outcome, ToolError
from tests.builders import make_run
from tests.collecting import policy


class Beside:
    """A collection with a socket, and questions asked beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.control = Control()
        self.repaired = asyncio.Event()
        self.notes: list[str] = []

    async def worker(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        broken = not self.repaired.is_set()
        if item.task.index == 0:
            await self.repaired.wait()
        elif broken:
            raise ToolError("it broke")
        return Completed(1.0)

    async def ask(self, command: object) -> ControlAnswer:
        (path,) = sockets_of(self.directory)
        return await asyncio.to_thread(ask, path, command)  # type: ignore[arg-type]


def test_commands_reach_a_running_collection_and_change_it(tmp_path: Path) -> None:
    scene = Beside(tmp_path / "run")

    async def act() -> list[ControlAnswer]:
        answers = [await scene.ask(ShowStatus())]
        async with asyncio.timeout(20):
            while (status := scene.control.status()) is None or status.failed < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        scene.control.hold("until the answer is there")
        answers.append(await scene.ask(RetryFailed()))
        scene.control.release("until the answer is there")
        scene.repaired.set()
        return answers

    async def main() -> list[ControlAnswer]:
        with make_run(scene.directory, 4) as store:
            async with control_socket(store, scene.control, scene.notes.append):
                acting = asyncio.create_task(act())
                coverage = await collect(
                    store.inputs, scene.worker, store, policy(), control=scene.control
                )
                late = await scene.ask(Pause())
                assert coverage.completed == 4
                return [*await acting, late]

    first, retried, late = run(main())
    assert first.state in (State.STARTING, State.RUNNING)
    assert retried.said == "3 failed rollouts run again."
    assert retried.status is not None
    assert retried.status.reopened == 3
    assert (late.state, late.said) == (State.ENDED, "")
    assert "the collection has ended" in late.problem
    assert not sockets_of(scene.directory)
    assert scene.notes == []


@pytest.mark.parametrize("long", [False, True])
def test_the_socket_is_for_its_user_only_also_where_the_path_is_too_long(
    tmp_path: Path, long: bool
) -> None:
    directory = tmp_path / ("x" * (LONGEST_PATH if long else 1))
    scene = Beside(directory)

    async def main() -> None:
        with make_run(directory) as store:
            for _ in range(2):
                async with control_socket(store, scene.control, scene.notes.append):
                    (path,) = sockets_of(directory)
                    assert stat.S_IMODE(path.stat().st_mode) == 0o600
                    assert path.is_symlink() == long
                    assert (await scene.ask(ShowStatus())).state is State.STARTING
                    folder = path.resolve().parent
                    assert not long or stat.S_IMODE(folder.stat().st_mode) == 0o700
                assert not long or not folder.exists()

    run(main())


def test_a_socket_that_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    scene = Beside(tmp_path / "run")
    with make_run(scene.directory):
        left = socket.socket(socket.AF_UNIX)
        left.bind(str(scene.directory / "control.sock"))
        left.close()
    (path,) = sockets_of(scene.directory)
    with pytest.raises(ControlUnreachableError, match="no collection answers"):
        ask(path, ShowStatus())

    async def main() -> None:
        with make_run(scene.directory) as store:
            async with control_socket(store, scene.control, scene.notes.append):
                assert (await scene.ask(ShowStatus())).state is State.STARTING

    run(main())


def test_a_request_that_cannot_be_understood_is_answered_and_others_go_on(tmp_path: Path) -> None:
    scene = Beside(tmp_path / "run")

    def send(path: Path, data: bytes) -> dict[str, object]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(path))
            connection.sendall(data)
            answer: dict[str, object] = json.loads(connection.recv(1 << 16))
            return answer

    async def main() -> None:
        with make_run(scene.directory) as store:
            async with control_socket(store, scene.control, scene.notes.append):
                (path,) = sockets_of(scene.directory)
                idle = socket.socket(socket.AF_UNIX)
                idle.connect(str(path))
                for data in (
                    b'{"command":"explode"}\n',
                    b"[" * 5000 + b"\n",
                    b"x" * 70_000 + b"\n",
                ):
                    answer = await asyncio.to_thread(send, path, data)
                    assert "does not know the request" in str(answer["problem"])
                assert (await scene.ask(ShowStatus())).problem == ""
                idle.close()

    run(main())


def test_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Beside(tmp_path / "run")
    ours = os.getuid()

    async def main() -> ControlAnswer:
        with make_run(scene.directory) as store:
            async with control_socket(store, scene.control, scene.notes.append):
                monkeypatch.setattr("rollgym.ctl.sockets.ROOT", ours + 1)
                monkeypatch.setattr(os, "getuid", lambda: ours + 2)
                return await scene.ask(Pause())

    answer = run(main())
    assert "does not collect this run" in answer.problem
    assert scene.control.holds == ()
