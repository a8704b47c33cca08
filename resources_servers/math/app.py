r"""Mathematics with a symbolic verifier: every form of the expected answer is right.

*Answers.* The answer is the last box (`\boxed{…}`), else the last line that says "answer: …" or
"answer is …", else the last LaTeX or number of the text, which the comparison finds. An expression
is read as a whole. In a phrase, such as "3 apples", the LaTeX or number is searched for.

*Isolation.* Comparing expressions can take for ever, and the model decides which ones. It runs in
worker processes with a limit on their processor time, which does not depend on how busy the machine
is.

*Who caused a failure.* The task is defective if its expected answer cannot be read, or cannot be
compared with itself and with a plain number within the limit; there is no reward. If that works,
and the model's answer cannot be read or takes too long, the model caused it: reward 0. A worker
that crashes, is not available or does not answer in time is a failure of the verifier, and there is
no reward either.
"""

import re
from collections import OrderedDict
from importlib.util import find_spec
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from rollgym.records import TaskError
from rollgym.servers import ResourcesConfig, ResourcesServer, Response, TaskRow, Verdict
from rollgym.servers.final_answer import answer_text, last_boxed, last_lines_with
from rollgym.servers.isolation import CpuTimeExceededError, IsolatedWorkers
from rollgym.servers.server import ServerConfig, ServerDirectory
from rollgym.store import Setting

TAIL = 2_000
# Blanks are collapsed first and repetitions are limited: a line may have a megabyte.
_ANSWER = re.compile(
    r"\banswer(?: is)?[*_]{0,3} ?[:=][*_]{0,3} ?(?P<colon>.+)|\banswer is (?P<verb>.+)",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[A-Za-z]{3}")
_FUNCTIONS = re.compile(r"\b(?:sin|cos|tan|cot|sec|csc|log|exp|sqrt|max|min|mod|inf|pi)\b")
_FORMULA = re.compile(r"\$|\\\(|\\\[")


class MathAnswer(NamedTuple):
    """The text of an answer, where it was found, and whether the whole text is an expression."""

    text: str
    source: Literal["box", "line", "end"]
    reading: Literal["expression", "text"]


def find_answer(response: str) -> MathAnswer | None:
    """The final answer; None if the response is empty."""
    text = answer_text(response)
    boxed = last_boxed(text)
    if boxed:
        return MathAnswer(boxed, "box", "expression")
    line = _answer_line(text)
    if line:
        return MathAnswer(line, "line", "text" if _is_phrase(line) else "expression")
    end = text[-TAIL:].strip()
    return MathAnswer(end, "end", "text") if end else None


def _answer_line(text: str) -> str | None:
    for line in last_lines_with("answer", text):
        found = _ANSWER.search(" ".join(line.split()))
        if found:
            answer: str = found["colon"] or found["verb"]
            return answer.strip(" *_")
    return None


def _is_phrase(line: str) -> bool:
    """Whether the line contains words or a marked formula."""
    plain = _FUNCTIONS.sub("", _COMMAND.sub("", line))
    return bool(_FORMULA.search(line) or _WORD.search(plain))


EXCERPT = 1_000
REMEMBERED = 10_000
PLAIN_NUMBER = "1.5"
_NEEDED = ("math_verify", "antlr4")


class MathTask(TaskRow):
    """`expected_answer` is a LaTeX expression or a number."""

    expected_answer: str = Field(min_length=1, coerce_numbers_to_str=True)


class MathConfig(ResourcesConfig):
    """Limits of the comparison: processes, seconds of processor time and wall time, memory."""

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
                "installed. Run pip install 'rollgym[math]'"
            )
        await super().start()

    async def close(self) -> None:
        await self._workers.close()
        await super().close()

    async def verify(self, task: MathTask, response: Response, state: None) -> Verdict:
        await self._check_expected(task.expected_answer)
        answer = find_answer(response.text)
        if answer is None:
            return _verdict("no_answer", None, None)
        try:
            comparison = await self._compare(task.expected_answer, answer.text, answer.reading)
        except CpuTimeExceededError:
            comparison = "timed_out"
        return _verdict(comparison, answer.text[:EXCERPT], answer.source)

    async def _check_expected(self, expected: str) -> None:
        """Raise TaskError for an answer that does not equal itself or cannot be evaluated."""
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
