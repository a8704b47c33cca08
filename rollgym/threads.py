"""Functions that other people wrote, in threads that hold up nothing else."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


async def run_in_daemon_thread(work: Callable[[], T], name: str) -> T:
    """The result of `work` in a new thread, with this context. Raises its errors.

    A function that never returns is abandoned when the caller is cancelled. It delays neither other
    work nor the end of the process, and uses up no thread of a pool. What is not an Exception, such
    as SystemExit, becomes a RuntimeError.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: Any, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    def run() -> None:
        result: Any = None
        caught: Exception | None = None
        try:
            result = context.run(work)
        except StopIteration as error:  # a future cannot have it
            caught = RuntimeError(f"StopIteration: {error}")
        except BaseException as error:  # noqa: BLE001 - it may raise anything
            caught = error if isinstance(error, Exception) else RuntimeError(repr(error))
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(finish, result, caught)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done
