"""The demo's agent. No language model: a scripted solver that errs on purpose.

It reads the question, works it out with a calculator as its tool, and slips with a probability that
grows with the difficulty. Whether it slips depends on the rollout's seed alone, so its rewards are
the same however the run was interrupted, sharded or retried.
"""

import asyncio
import re
import time
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from rollgym.cli.puzzles import verify
from rollgym.cli.weather import Weather
from rollgym.engine import WorkItem
from rollgym.records import Completed, Outcome, Row, Span, TaskError, boundary, derive_seed

SLIP_PER_DIFFICULTY = 0.08
_ORDER = re.compile(r"(Add|Subtract|Multiply by) (\d+)")
_SIGNS = {"Add": "+", "Subtract": "-", "Multiply by": "*"}
_SUM = re.compile(r"(-?\d+) ([-+*]) (\d+)")


class ScriptedSolver:
    """An engine worker. `latency` is the mean time of a simulated call of the model, in seconds."""

    def __init__(self, latency: float, weather: Weather) -> None:
        self._latency = latency
        self._weather = weather

    async def __call__(self, item: WorkItem, attempt: int, deadline: float) -> Outcome:
        """Solve, verify, report. The engine cancels at the deadline, and any wait can be cut."""
        return await _Episode(item, attempt, self._latency, self._weather).run()


class _Episode:
    """One attempt: the transcript so far, the time spent by phase, and when it was."""

    def __init__(self, item: WorkItem, attempt: int, latency: float, weather: Weather) -> None:
        self._item = item
        self._attempt = attempt
        self._latency = latency
        self._weather = weather
        self._pauses = Random(derive_seed(item.seed, "latency", attempt))  # noqa: S311
        self._slips = Random(derive_seed(item.seed, "slip"))  # noqa: S311
        self._phases = {"model": 0.0, "tool": 0.0, "verifier": 0.0}
        self._spans: list[Span] = []
        self._began = time.perf_counter()
        self._output: list[dict[str, Any]] = []

    async def run(self) -> Completed:
        row = self._item.task.row
        with boundary(TaskError):
            family, question = row.get("family", str), _question(row)
        solve = {"arithmetic": self._compute, "letters": self._count, "sorting": self._sort}
        if family not in solve:
            raise TaskError(f"the solver knows no puzzles of the family {family!r}")
        response = f"Answer: {await solve[family](question)}"
        await self._cross("model")
        self._output.append({"role": "assistant", "content": response})
        await self._cross("verifier")
        reward = verify(row, response)
        return Completed(
            reward,
            measures={
                "tool_calls": sum("tool_calls" in message for message in self._output),
                "response_length": float(len(response)),
            },
            phases=self._phases,
            spans=tuple(self._spans),
            result=msgspec.Raw(msgspec.json.encode({"question": question, "output": self._output})),
        )

    async def _compute(self, question: str) -> str:
        """Follow the orders, one call of the calculator for each."""
        start, _, orders = question.removeprefix("Start with ").partition(".")
        value = int(start)
        for order, operand in _ORDER.findall(orders):
            value = await self._calculate(f"{value} {_SIGNS[order]} {operand}")
        return str(value + self._slip(lambda: self._slips.choice((-10, -1, 1, 10))))

    async def _count(self, question: str) -> str:
        """Count word by word and add up with the calculator."""
        asked, _, phrase = question.rstrip("?").partition(" occur in: ")
        letter = asked[-1]
        total = 0
        for word in phrase.split():
            total = await self._calculate(f"{total} + {word.count(letter)}")
        return str(total + self._slip(lambda: self._slips.choice((-1, 1))))

    async def _sort(self, question: str) -> str:
        """No tool: neighbours that are out of place change places."""
        await self._cross("model")
        numbers = sorted(int(number) for number in re.findall(r"\d+", question))
        place = self._slip(lambda: self._slips.randrange(1, len(numbers)))
        if place:
            numbers[place - 1], numbers[place] = numbers[place], numbers[place - 1]
        return ", ".join(map(str, numbers))

    async def _calculate(self, expression: str) -> int:
        await self._cross("model")
        arguments = msgspec.json.encode({"expression": expression}).decode()
        call = {"function": {"name": "calculator", "arguments": arguments}}
        self._output.append({"role": "assistant", "tool_calls": [call]})
        await self._cross("tool", "calculator")
        value = calculate(expression)
        self._output.append({"role": "tool", "content": str(value)})
        return value

    def _slip(self, error: Callable[[], int]) -> int:
        """0, or by mistake something else."""
        difficulty = self._item.task.row.get("difficulty", int, 1)
        slipped = self._slips.random() < SLIP_PER_DIFFICULTY * difficulty
        return error() if slipped else 0

    async def _cross(self, where: str, label: str = "") -> None:
        """Wait as the other side would have us wait, and meet whatever breaks there."""
        pause = self._latency * (0.5 + self._pauses.random())
        began = time.perf_counter()
        await asyncio.sleep(pause if where == "model" else pause / 10)
        seconds = time.perf_counter() - began
        self._phases[where] += seconds
        start = began - self._began
        self._spans.append(Span(where, round(start, 6), round(seconds, 6), label))
        self._weather.strike(where, self._item, self._attempt)


def calculate(expression: str) -> int:
    """The tool: one sum, difference or product of whole numbers. Raises ValueError."""
    match = _SUM.fullmatch(expression)
    if match is None:
        raise ValueError(f"the calculator cannot read {expression!r}")
    left, right = int(match[1]), int(match[3])
    match match[2]:
        case "+":
            return left + right
        case "-":
            return left - right
        case _:
            return left * right


def _question(row: Row) -> str:
    parameters = row.get("responses_create_params", dict[str, Any], {})
    return str(parameters["input"][0]["content"])
