"""Mathematics with a symbolic verifier: any form of the expected answer is right.

*Isolation.* Comparing expressions can take for ever, and a model decides which. It runs in worker
processes with a limit on their processor time, which does not depend on how busy the machine is.

*Whose fault.* An expected answer that cannot be read, or compared with itself and with a plain
number within the limit, is a defect of the task, and there is no reward. Where that works, and the
model's answer cannot be read or takes too long, it is the model's doing: reward 0. A worker that
crashes, is not to be had or does not answer within the time on the clock is the verifier's failure,
and there is no reward either.
"""

from collections import OrderedDict
from importlib.util import find_spec
from typing import Annotated

from pydantic import Field

from resources_servers.math.answers import find_answer
from rollgym.records import TaskError
from rollgym.servers import ResourcesConfig, ResourcesServer, Response, TaskRow, Verdict
from rollgym.servers.isolation import CpuTimeExceededError, IsolatedWorkers
from rollgym.servers.server import ServerConfig, ServerDirectory
from rollgym.store import Setting

EXCERPT = 1_000
REMEMBERED = 10_000
PLAIN_NUMBER = "1.5"
_NEEDED = ("math_verify", "antlr4")


class MathTask(TaskRow):
    """`expected_answer` is a LaTeX expression or a number."""

    expected_answer: str = Field(min_length=1, coerce_numbers_to_str=True)


class MathConfig(ResourcesConfig):
    """Bounds of the comparison: processes, seconds of processor time and on the clock, memory."""

    workers: Annotated[int, Setting.TIMING] = Field(default=2, ge=1)
    cpu_seconds: float = Field(default=5.0, gt=0)
    wall_seconds: float = Field(default=120.0, gt=0)
    memory_bytes: int | None = Field(default=2 << 30, gt=0)


class MathServer(ResourcesServer[MathTask, None]):
    """Rewards an answer that equals the expected one."""

    config: MathConfig

    def __init__(
        self, name: str, config: ServerConfig, directory: ServerDirectory | None = None
    ) -> None:
        super().__init__(name, config, directory)
        self._readable: OrderedDict[str, None] = OrderedDict()
        self._workers = IsolatedWorkers(
            "resources_servers.math.equivalence:compare",
            workers=self.config.workers,
            memory_bytes=self.config.memory_bytes,
        )

    async def start(self) -> None:
        missing = [module for module in _NEEDED if find_spec(module) is None]
        if missing:
            raise ModuleNotFoundError(
                f"{self.name} compares answers with math-verify, and {missing[0]} is not "
                "installed: pip install 'rollgym[math]'"
            )
        await super().start()

    async def close(self) -> None:
        await self._workers.close()
        await super().close()

    async def verify(self, task: MathTask, response: Response, state: None) -> Verdict:
        await self._require_readable(task.expected_answer)
        answer = find_answer(response.text)
        if answer is None:
            return _verdict("no_answer", None, None)
        try:
            comparison = await self._compare(task.expected_answer, answer.text, answer.reading)
        except CpuTimeExceededError:
            comparison = "timed_out"
        return _verdict(comparison, answer.text[:EXCERPT], answer.source)

    async def _require_readable(self, expected: str) -> None:
        """Raises TaskError for an answer that does not equal itself or cannot be evaluated."""
        if expected in self._readable:
            self._readable.move_to_end(expected)
            return
        try:
            comparison = await self._compare(expected, expected, "expression")
            await self._compare(expected, PLAIN_NUMBER, "expression")
        except CpuTimeExceededError as error:
            raise TaskError(
                f"expected_answer {expected[:EXCERPT]!r} cannot be evaluated in "
                f"{self.config.cpu_seconds:g} s of processor time; write it in a simpler form or "
                "raise cpu_seconds"
            ) from error
        if comparison != "equal":
            raise TaskError(
                f"expected_answer {expected[:EXCERPT]!r} cannot be read as mathematics "
                f"({comparison}); write it as a LaTeX expression or a number"
            )
        self._readable[expected] = None
        if len(self._readable) > REMEMBERED:
            self._readable.popitem(last=False)

    async def _compare(self, expected: str, candidate: str, reading: str) -> str:
        comparison: str = await self._workers.call(
            expected,
            candidate,
            reading,
            timeout=self.config.wall_seconds,
            cpu_timeout=self.config.cpu_seconds,
        )
        return comparison


def _verdict(comparison: str, answer: str | None, source: str | None) -> Verdict:
    success = comparison == "equal"
    return Verdict(
        reward=float(success),
        success=success,
        comparison=comparison,
        timed_out=comparison == "timed_out",
        extracted_answer=answer,
        answer_source=source,
    )
