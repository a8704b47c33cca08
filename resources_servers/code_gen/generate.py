"""Makes rows: `python -m resources_servers.code_gen.generate --count N --seed S --output FILE`.

Each function makes one kind of programming problem from random numbers. The numbers in the
statement differ from row to row, so that a memorized solution does not solve the next problem. The
expected answers are computed from the same values as the tests, so they are right by construction.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from rollgym.records import derive_seed
from rollgym.servers.generator import run_generator

TESTS = 8
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove")
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class CodeProblem(NamedTuple):
    """A statement with its tests."""

    topic: str
    statement: str
    test_cases: list[dict[str, Any]]
    entry_point: str | None = None


def window_sum(random: Random) -> CodeProblem:
    width = random.randint(2, 5)
    lists = [
        [random.randint(-50, 50) for _ in range(random.randint(width, 12))] for _ in range(TESTS)
    ]
    statement = (
        "The input has one line with a number n and a second line with n integers separated by "
        f"spaces. Print the largest sum of {width} consecutive ones of these integers."
    )
    answers = [
        max(sum(values[start : start + width]) for start in range(len(values) - width + 1))
        for values in lists
    ]
    inputs = [f"{len(values)}\n{' '.join(map(str, values))}\n" for values in lists]
    return CodeProblem("window_sum", statement, _input_tests(inputs, answers))


def word_counts(random: Random) -> CodeProblem:
    least = random.randint(2, 3)
    texts = [
        [[random.choice(_WORDS) for _ in range(random.randint(1, 8))] for _ in range(3)]
        for _ in range(TESTS)
    ]
    statement = (
        "The input is a text of several lines; words are separated by spaces. Print every word "
        f"that occurs at least {least} times, each on a line of its own, followed by a space and "
        "its count. Words with higher counts come first, equal counts in alphabetical order. If "
        "there is no such word, print `none`."
    )
    answers = [_frequent([word for line in text for word in line], least) for text in texts]
    inputs = ["".join(" ".join(line) + "\n" for line in text) for text in texts]
    return CodeProblem("word_counts", statement, _input_tests(inputs, answers))


def maze(random: Random) -> CodeProblem:
    wall = random.choice("#X@")
    grids = [_grid(random, wall, random.randint(3, 8), random.randint(3, 8)) for _ in range(TESTS)]
    statement = (
        "The input is a maze, a rectangle of characters, one row per line: `.` is free and "
        f"`{wall}` is a wall. The first and the last cell are free. Print the least number of "
        "steps up, down, left or right that lead from the top left cell to the bottom right cell "
        "through free cells, or -1 if there is no way."
    )
    inputs = ["".join(row + "\n" for row in grid) for grid in grids]
    return CodeProblem(
        "maze", statement, _input_tests(inputs, [_steps(grid, wall) for grid in grids])
    )


def merge_ranges(random: Random) -> CodeProblem:
    gap = random.randint(1, 4)
    lists: list[list[list[int]]] = [[]]
    while len(lists) < TESTS:
        starts = [random.randint(0, 60) for _ in range(random.randint(2, 8))]
        lists.append([[start, start + random.randint(0, 9)] for start in starts])
    statement = (
        "Write a function `merge_ranges(ranges)`. It gets a list of ranges in any order, each a "
        "list of its first and its last integer. It returns the list of ranges in ascending order "
        "in which ranges are merged wherever they overlap or the next one begins at most "
        f"{gap} after the end of the one before."
    )
    answers = [_merged(ranges, gap) for ranges in lists]
    tests = _call_tests([[ranges] for ranges in lists], answers)
    return CodeProblem("merge_ranges", statement, tests, "merge_ranges")


def digit_sum(random: Random) -> CodeProblem:
    base = random.choice([3, 5, 7, 12, 16])
    numbers = [0, *(random.randint(1, 10**9) for _ in range(TESTS - 1))]
    statement = (
        "Write a function `convert(number)`. It gets an integer that is not negative and returns "
        f"a list of two: the number written in base {base}, as text with the digits 0 to 9 and "
        "then a to z, and the sum of these digits."
    )
    written = [_in_base(number, base) for number in numbers]
    answers = [[text, sum(map(_DIGITS.index, text))] for text in written]
    tests = _call_tests([[number] for number in numbers], answers)
    return CodeProblem("digit_sum", statement, tests, "convert")


MAKERS: Sequence[Callable[[Random], CodeProblem]] = (
    window_sum,
    merge_ranges,
    word_counts,
    digit_sum,
    maze,
)


def _input_tests(inputs: Sequence[str], answers: Sequence[object]) -> list[dict[str, Any]]:
    pairs = zip(inputs, answers, strict=True)
    return [{"input": given, "output": f"{answer}\n"} for given, answer in pairs]


def _call_tests(arguments: Sequence[list[Any]], answers: Sequence[Any]) -> list[dict[str, Any]]:
    pairs = zip(arguments, answers, strict=True)
    return [{"arguments": given, "expected": answer} for given, answer in pairs]


def _frequent(words: Sequence[str], least: int) -> str:
    counts = sorted(Counter(words).items(), key=lambda item: (-item[1], item[0]))
    return "\n".join(f"{word} {count}" for word, count in counts if count >= least) or "none"


def _grid(random: Random, wall: str, height: int, width: int) -> list[str]:
    cells = [[random.choice(f".....{wall}") for _ in range(width)] for _ in range(height)]
    cells[0][0] = cells[-1][-1] = "."
    return ["".join(row) for row in cells]


def _steps(grid: Sequence[str], wall: str) -> int:
    goal = (len(grid) - 1, len(grid[0]) - 1)
    steps = {(0, 0): 0}
    queue = deque(steps)
    while queue:
        row, column = queue.popleft()
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            inside = 0 <= cell[0] <= goal[0] and 0 <= cell[1] <= goal[1]
            if inside and cell not in steps and grid[cell[0]][cell[1]] != wall:
                steps[cell] = steps[row, column] + 1
                queue.append(cell)
    return steps.get(goal, -1)


def _merged(ranges: Sequence[list[int]], gap: int) -> list[list[int]]:
    merged: list[list[int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + gap:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


def _in_base(number: int, base: int) -> str:
    digits = _DIGITS[number % base]
    while number := number // base:
        digits = _DIGITS[number % base] + digits
    return digits


INSTRUCTIONS = (
    "Write a Python program that solves the problem. Use the standard library only. Give the whole "
    "program in one block that begins with ```python and ends with ```."
)


def generate_rows(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Each row depends only on the seed and its own number."""
    for index in range(count):
        random = Random(derive_seed(seed, "code_gen", index))  # noqa: S311 - reproducible on purpose
        problem = MAKERS[index % len(MAKERS)](random)
        row: dict[str, Any] = {
            "responses_create_params": {
                "input": [
                    {"role": "developer", "content": INSTRUCTIONS},
                    {"role": "user", "content": f"{problem.statement}\n\n{_example(problem)}"},
                ]
            },
            "topic": problem.topic,
            "test_cases": problem.test_cases,
        }
        yield row | ({"entry_point": problem.entry_point} if problem.entry_point else {})


def _example(problem: CodeProblem) -> str:
    """A test of medium length as an example for the statement."""
    by_length = sorted(problem.test_cases, key=lambda test: len(repr(test)))
    test = by_length[len(by_length) // 2]
    if problem.entry_point:
        arguments = ", ".join(map(repr, test["arguments"]))
        return f"Example: `{problem.entry_point}({arguments})` returns `{test['expected']!r}`."
    return f"Example input:\n\n{test['input']}\nIts output:\n\n{test['output']}"


def main(arguments: Sequence[str] | None = None) -> None:
    run_generator("Small programming problems with tests.", generate_rows, arguments)


if __name__ == "__main__":
    main()
