import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.unit.webgym.monitor.crowd import crowd
from webgym.monitor.board import Board, board_lines, plain_line
from webgym.monitor.snapshot import MonitorSnapshot, TaskState

SIZES = [(80, 25), (200, 60), (120, 40), (40, 10), (20, 5), (1, 1)]


def drawn(snapshot: MonitorSnapshot, width: int, height: int, *, colour: bool = True) -> list[str]:
    console = Console(
        file=io.StringIO(),
        width=width,
        height=height,
        force_terminal=True,
        color_system="standard" if colour else None,
        record=True,
    )
    console.print(Board(snapshot), end="")
    return console.export_text().splitlines()


def cells_of(lines: list[str]) -> str:
    """The characters of the grid, which stands between its title and the slowest."""
    start = next(number for number, line in enumerate(lines) if line.startswith("- "))
    rows = [line for line in lines[start + 1 :] if "step " not in line]
    return "".join(rows)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("expected", [0, 1, 40, 1000, 9_999])
def test_no_line_is_too_wide_and_there_are_never_too_many(
    width: int, height: int, expected: int
) -> None:
    lines = drawn(crowd(expected), width, height)
    assert len(lines) <= max(1, height - 1)
    assert all(cell_len(line) <= width for line in lines)


def test_a_thousand_rollouts_have_a_cell_each() -> None:
    cases: list[tuple[int, int]] = [(80, 25), (200, 60)]
    for width, height in cases:
        snapshot = crowd(1000)
        lines = drawn(snapshot, width, height)
        shown = cells_of(lines).replace(" ", "")
        assert "one cell per rollout" in "".join(lines)
        for state in TaskState:
            if state is not TaskState.RUNNING:
                assert shown.count(state.mark) == snapshot.counts[state]
        assert shown.count("?") == 1
        assert any(line.startswith("?") and "step " in line for line in lines)


def test_at_80_columns_a_running_cell_is_a_character() -> None:
    snapshot = crowd(1000)
    shown = cells_of(drawn(snapshot, 80, 24))
    assert shown == snapshot.cells
    assert shown.count(">") == snapshot.counts[TaskState.RUNNING] - snapshot.overdue


def test_at_200_columns_a_running_cell_shows_its_step() -> None:
    snapshot = crowd(1000)
    lines = drawn(snapshot, 200, 60)
    steps = [int(word) for word in cells_of(lines).split() if word.isdigit()]
    running = [task for task in snapshot.live if task.state is TaskState.RUNNING]
    by_cell = sorted((task.cell, task.step) for task in running if not task.overdue)
    assert steps == [step for _, step in by_cell]


def test_the_counts_on_the_board_add_up() -> None:
    snapshot = crowd(1000)
    text = "\n".join(drawn(snapshot, 200, 60))
    assert sum(snapshot.counts.values()) == snapshot.expected
    for state, count in snapshot.counts.items():
        if count:
            assert f"{state.mark} {count} {state.words}" in text
    assert "640/1000" in text
    assert "success rate 60.7%" in text
    assert "timeouts 12" in text
    assert "failing: 31 x browser (the browser session was lost)" in text


def test_where_cells_do_not_fit_one_stands_for_several() -> None:
    lines = drawn(crowd(9_999), 80, 24)
    assert "one cell for " in "".join(lines)
    assert sum(line.startswith((">", "?")) and "step " in line for line in lines) == 3


def test_without_colours_the_board_says_the_same() -> None:
    snapshot = crowd(1000)
    assert drawn(snapshot, 80, 24) == drawn(snapshot, 80, 24, colour=False)


def test_labels_are_no_markup() -> None:
    text = "\n".join(drawn(crowd(200), 200, 60))
    assert "[bold]and[/bold]" in text


def test_when_it_is_over_nothing_is_in_flight() -> None:
    text = "\n".join(drawn(crowd(40, finished=True), 80, 24))
    assert "in flight" not in text
    assert "stopping" not in text


def test_a_terminal_of_ascii_gets_no_blocks() -> None:
    lines = board_lines(crowd(40), 80, 24, ascii_only=True)
    assert "".join(segment.text for segment in lines[0]).isascii()


def test_a_line_for_logs_has_every_number() -> None:
    line = plain_line(crowd(1000))
    assert line.startswith("train iteration 5: 64% 640/1000 after 12:03: 290 not started, ")
    for part in ("60 running", "51.3/min", "model ", "07:00 left", "overdue", "asked to stop"):
        assert part in line
    assert "\n" not in line
