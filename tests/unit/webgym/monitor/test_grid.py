from hypothesis import given
from hypothesis import strategies as st

from webgym.monitor.board import grid_lines, plan_cells
from webgym.monitor.snapshot import MARKS, merged_cells


@given(st.integers(1, 20_000), st.integers(1, 250), st.integers(1, 80))
def test_every_cell_is_drawn_inside_the_room_there_is(count: int, columns: int, rows: int) -> None:
    plan = plan_cells(count, columns, rows)
    assert plan is not None
    assert plan.rows <= rows
    assert plan.per_row * plan.width <= columns
    assert plan.per_row * plan.rows * plan.merged >= count


@given(st.text(MARKS, min_size=1, max_size=300), st.integers(1, 100), st.integers(1, 20))
def test_lines_have_the_size_of_the_plan(cells: str, columns: int, rows: int) -> None:
    plan = plan_cells(len(cells), columns, rows)
    assert plan is not None
    lines = ["".join(segment.text for segment in line) for line in grid_lines(cells, {}, plan)]
    assert len(lines) == plan.rows
    assert all(len(line) <= columns for line in lines)
    assert "".join(lines).replace(" ", "") == merged_cells(cells, plan.merged)


def test_roomy_cells_are_chosen_where_they_fit() -> None:
    chosen = [plan_cells(count, 60, 10) for count in (200, 201, 300, 301, 600, 601)]
    assert [(plan.width, plan.merged) for plan in chosen if plan] == [
        (3, 1),
        (2, 1),
        (2, 1),
        (1, 1),
        (1, 1),
        (1, 2),
    ]


def test_without_room_there_is_no_grid() -> None:
    assert plan_cells(10, 80, 0) is None
    assert plan_cells(0, 80, 10) is None


def test_merged_cells_show_what_most_are() -> None:
    assert merged_cells("+++x" + "xx.+" + "..", 4) == "+x."
    assert merged_cells("+x", 1) == "+x"
