"""Solves `code_gen` with fixed programs, and answers tasks that no solver recognizes.

A program contains the number or sign that its task names.
"""

import re
from typing import ClassVar

from responses_api_models.scripted_model.solver import ScriptedRequest, ScriptedTurn, SeededChoices

_WINDOW_SUM = """\
input()
numbers = list(map(int, input().split()))
starts = range(len(numbers) - VALUE + 1)
print(max(sum(numbers[start : start + VALUE]) for start in starts))
"""
_WORD_COUNTS = """\
import sys
from collections import Counter

counts = Counter(sys.stdin.read().split())
frequent = [(-count, word) for word, count in counts.items() if count >= VALUE]
print("\\n".join(f"{word} {-count}" for count, word in sorted(frequent)) or "none")
"""
_MERGE_RANGES = """\
def merge_ranges(ranges):
    merged = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + VALUE:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged
"""
_CONVERT = """\
def convert(number):
    digits = []
    while number or not digits:
        number, digit = divmod(number, VALUE)
        digits.append(digit)
    text = "".join("0123456789abcdefghijklmnopqrstuvwxyz"[digit] for digit in reversed(digits))
    return [text, sum(digits)]
"""
_MAZE = """\
import sys

rows = sys.stdin.read().split()
free = {(x, y) for y, row in enumerate(rows) for x, cell in enumerate(row) if cell != "VALUE"}
goal = (len(rows[0]) - 1, len(rows) - 1)
reached, steps = {(0, 0)}, 0
free -= reached
while reached and goal not in reached:
    ways = ((1, 0), (-1, 0), (0, 1), (0, -1))
    reached = {(x + right, y + down) for x, y in reached for right, down in ways} & free
    free -= reached
    steps += 1
print(steps if reached else -1)
"""
_PROGRAMS = {
    r"largest sum of (\d+) consecutive": _WINDOW_SUM,
    r"occurs at least (\d+) times": _WORD_COUNTS,
    r"begins at most (\d+) after the end": _MERGE_RANGES,
    r"written in base (\d+)": _CONVERT,
    r"maze.*and `(.)` is a wall": _MAZE,
}
"""Programs by the wording of their tasks; the match replaces VALUE in the program."""
_USELESS = "raise NotImplementedError\n"


class ProgramSolver:
    """Writes one of its programs; for another task it writes a program that fails."""

    mistakes: ClassVar[tuple[str, ...]] = ("forgets_the_block", "writes_it_too_fast")

    def recognizes(self, request: ScriptedRequest) -> bool:
        return not request.tools and "```python" in request.task

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        program = next(
            (
                program.replace("VALUE", match[1])
                for wording, program in _PROGRAMS.items()
                if (match := re.search(wording, request.question))
            ),
            _USELESS,
        )
        match mistake:
            case "forgets_the_block":
                return ScriptedTurn("I know how that goes.", "Use a loop and a list.")
            case "writes_it_too_fast":
                program = program.replace(")", "", 1) if ")" in program else _USELESS
        return ScriptedTurn("I know how that goes.", f"Here it is:\n\n```python\n{program}```")


class UnknownTaskSolver:
    """Recognizes every task and says that it cannot solve it. It never calls a tool."""

    mistakes: ClassVar[tuple[str, ...]] = ("says_nothing",)

    def recognizes(self, request: ScriptedRequest) -> bool:
        return True

    def next_turn(
        self, request: ScriptedRequest, mistake: str | None, choices: SeededChoices
    ) -> ScriptedTurn:
        if mistake:
            return ScriptedTurn("I do not know this task.", "I do not know.")
        return ScriptedTurn(
            "I do not know this task.",
            "I am a script, no language model, and know only the bundled example tasks.",
        )
