import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from resources_servers.code_gen.execution import ProgramLimits
from resources_servers.code_gen.generate import MAKERS, TESTS, generate_rows, main
from resources_servers.code_gen.sandbox import Sandbox
from resources_servers.code_gen.task import CodeTask
from resources_servers.code_gen.tests.running import ALL_WALLS, require_layers
from resources_servers.code_gen.verification import CaseStatus, RunBudget, run_tests

EXAMPLES = Path(__file__).parents[1] / "data" / "example.jsonl"

# Written from the statements of the example rows, not from the references.
SOLUTIONS = {
    "window_sum": """
n = int(input())
values = list(map(int, input().split()))
best = None
for i in range(n - 3):
    total = values[i] + values[i + 1] + values[i + 2] + values[i + 3]
    if best is None or total > best:
        best = total
print(best)
""",
    "merge_ranges": """
def merge_ranges(ranges):
    covered = set()
    for first, last in ranges:
        covered |= set(range(first, last + 1))
    out = []
    for number in sorted(covered):
        if out and number <= out[-1][1] + 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return out
""",
    "word_counts": """
import sys
words = sys.stdin.read().split()
rows = [(-words.count(w), w) for w in sorted(set(words)) if words.count(w) >= 2]
for count, word in sorted(rows):
    print(word, -count)
if not rows:
    print("none")
""",
    "digit_sum": """
def convert(number):
    digits = []
    while True:
        number, digit = divmod(number, 7)
        digits.insert(0, digit)
        if not number:
            return ["".join(map(str, digits)), sum(digits)]
""",
    "maze": """
import sys
grid = sys.stdin.read().split()
front, seen, steps = {0}, {0}, 0
cells = {complex(r, c) for r, row in enumerate(grid) for c, x in enumerate(row) if x == "."}
goal = complex(len(grid) - 1, len(grid[0]) - 1)
while front and goal not in front:
    front = {z + d for z in front for d in (1, -1, 1j, -1j)} & cells - seen
    seen |= front
    steps += 1
print(steps if goal in front else -1)
""",
}


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def test_the_example_rows_are_the_first_five_of_seed_0(tmp_path: Path) -> None:
    main(["--output", str(tmp_path / "new" / "rows.jsonl")])
    assert (tmp_path / "new" / "rows.jsonl").read_bytes() == EXAMPLES.read_bytes()
    assert len(rows_of(EXAMPLES)) == 5


def test_a_row_depends_on_the_seed_and_its_number_alone() -> None:
    assert list(generate_rows(20, 7))[:10] == list(generate_rows(10, 7))
    assert list(generate_rows(10, 7)) != list(generate_rows(10, 8))


def test_every_row_is_a_task_with_tests_that_no_constant_passes() -> None:
    for row in generate_rows(100, 3):
        task = CodeTask.model_validate(row)
        answers = {repr(test.get("output", test.get("expected"))) for test in row["test_cases"]}
        assert len(task.test_cases) == TESTS
        assert len(answers) > 1
        assert "```python" in row["responses_create_params"]["input"][0]["content"]


def test_the_example_rows_can_be_solved_from_their_statements() -> None:
    cases: Iterable[int] = range(len(MAKERS))
    for number in cases:
        require_layers(ALL_WALLS)
        row = rows_of(EXAMPLES)[number]
        source, task = SOLUTIONS[row["topic"]], CodeTask.model_validate(row)
        results = asyncio.run(
            run_tests(Sandbox(ALL_WALLS), source, task, ProgramLimits(), RunBudget())
        )
        assert [result.status for result in results] == [CaseStatus.PASSED] * TESTS, results
