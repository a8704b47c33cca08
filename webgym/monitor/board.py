"""A snapshot as lines of a terminal: numbers at the top, then cells, then the slowest rollouts.

Everything here is a pure function of the snapshot and the size of the terminal. No line is wider
than the terminal, and there are never more lines than fit. When rows are scarce, the cells shrink
first, then the slowest rollouts disappear, then the cells; the numbers stay. Foreign text is never
parsed as markup.

*Cells.* One cell stands for a rollout while they fit. With three columns per cell a running rollout
shows its step, apart from its neighbours. Without enough space cells have two columns, then one,
and then stand for several rollouts each.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style

from rollgym.monitor import printable_line
from rollgym.monitor.progress_view import ProgressView, bar_line, clock_time
from rollgym.records import TRAITS, FailureKind
from webgym.monitor.snapshot import (
    OVERDUE_MARK,
    PHASES,
    LiveTask,
    MonitorSnapshot,
    TaskState,
    merged_cells,
)

STYLES: dict[str, Style] = {
    TaskState.NOT_STARTED.mark: Style(dim=True),
    TaskState.WAITING.mark: Style(color="cyan"),
    TaskState.RUNNING.mark: Style(color="bright_white", bgcolor="blue"),
    TaskState.SUCCESS.mark: Style(color="black", bgcolor="green"),
    TaskState.FAILURE.mark: Style(color="bright_white", bgcolor="red"),
    TaskState.BLOCKED.mark: Style(color="bright_white", bgcolor="magenta"),
    TaskState.FAILED.mark: Style(color="black", bgcolor="yellow"),
    TaskState.OMITTED.mark: Style(color="yellow", dim=True),
    TaskState.EARLIER.mark: Style(color="green", dim=True),
    OVERDUE_MARK: Style(color="black", bgcolor="bright_white", bold=True),
}
_PLAIN = Style()
_RUNNING = TaskState.RUNNING.mark


class GridPlan(NamedTuple):
    """`width` columns per cell; each cell stands for `merged` cells of the snapshot."""

    width: int
    merged: int
    per_row: int
    rows: int


def plan_cells(count: int, columns: int, rows: int) -> GridPlan | None:
    """The widest way to draw `count` cells; None where nothing fits."""
    if count < 1 or columns < 1 or rows < 1:
        return None
    for width in (3, 2, 1):
        per_row = columns // width
        if per_row and ceil(count / per_row) <= rows:
            return GridPlan(width, 1, per_row, ceil(count / per_row))
    merged = ceil(count / (columns * rows))
    return GridPlan(1, merged, columns, ceil(ceil(count / merged) / columns))


def grid_lines(cells: str, steps: Mapping[int, int], plan: GridPlan) -> Iterator[list[Segment]]:
    """The rows of the grid. `steps` has the steps of running rollouts, by cell."""
    shown = merged_cells(cells, plan.merged)
    for start in range(0, len(shown), plan.per_row):
        yield list(_runs(shown[start : start + plan.per_row], start, steps, plan.width))


def _runs(row: str, first: int, steps: Mapping[int, int], width: int) -> Iterator[Segment]:
    """The segments of a row. Neighbours of one state share one, because each segment costs time."""
    start = 0
    for end in range(1, len(row) + 1):
        mark = row[start]
        if end < len(row) and row[end] == mark:
            continue
        if mark == _RUNNING and width > 1:
            text = "".join(_step(steps.get(first + index), width) for index in range(start, end))
        else:
            text = mark.center(width) * (end - start)
        yield Segment(text, STYLES.get(mark, _PLAIN))
        start = end


def _step(step: int | None, width: int) -> str:
    return (_RUNNING if step is None else str(min(step, 99))).rjust(2).ljust(width)


LEAST_SLOWEST, MOST_SLOWEST = 3, 20
TALLEST = 200
_RARE = frozenset((TaskState.BLOCKED, TaskState.OMITTED, TaskState.EARLIER))
_MEANINGS = {kind.value: TRAITS[kind].meaning for kind in FailureKind}
_BOLD = Style(bold=True)
_WARNING = Style(color="yellow")
_ALARM = Style(color="red")
_FAINT = Style(dim=True)

Line = list[Segment]
Item = tuple[str, str]
"""A mark or an empty text, and words that stay together."""


class Board:
    """The renderable of a snapshot; it takes the size of the console when it is drawn."""

    def __init__(self, snapshot: MonitorSnapshot) -> None:
        self.snapshot = snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # One row stays free, so that the terminal does not scroll.
        height = max(1, min(options.size.height - 1, TALLEST))
        lines = board_lines(self.snapshot, options.max_width, height, ascii_only=options.ascii_only)
        for number, line in enumerate(lines):
            if number:
                yield Segment.line()
            yield from line


def board_lines(
    snapshot: MonitorSnapshot, width: int, height: int, *, ascii_only: bool = False
) -> list[Line]:
    """The whole board."""
    head = list(_head(snapshot, width, ascii_only=ascii_only))
    slowest = [task for task in snapshot.live if task.state is TaskState.RUNNING or task.overdue]
    room = height - len(head)
    plan = _plan(len(snapshot.cells), width, room - 1, min(len(slowest), LEAST_SLOWEST))
    cells = list(_cells(snapshot, plan, width)) if plan else []
    left = max(0, min(room - len(cells), MOST_SLOWEST))
    lines = [*head, *cells, *(_slow_row(task) for task in slowest[:left])]
    return [Segment.adjust_line_length(line, width, pad=False) for line in lines[:height]]


def _plan(count: int, width: int, room: int, reserved: int) -> GridPlan | None:
    """One cell per rollout where they fit, if necessary in the rows of the slowest rollouts."""
    plans = [plan_cells(count, width, room - rows) for rows in range(reserved, -1, -1)]
    whole = (plan for plan in plans if plan and plan.merged == 1)
    return next(whole, None) or next((plan for plan in plans if plan), None)


def plain_line(snapshot: MonitorSnapshot) -> str:
    """The snapshot on one line, for logs."""
    percent = 100 * snapshot.ended // snapshot.expected if snapshot.expected else 100
    share = f"{percent}% {snapshot.ended}/{snapshot.expected}"
    parts = [f"{count} {state.words}" for state, count in _shown_counts(snapshot)]
    parts += [words for _, words in (*_numbers(snapshot), *_phase_items(snapshot))]
    left = snapshot.remaining_seconds
    parts.append(f"{'?' if left is None else clock_time(left)} left")
    if snapshot.live and not snapshot.finished:
        parts.append(f"slowest {_slow_line(snapshot.live[0])}")
    parts += [words for words, _ in _notes(snapshot)]
    title = f"{snapshot.title}: " if snapshot.title else ""
    return f"{title}{share} after {clock_time(snapshot.elapsed)}: {', '.join(parts)}"


def _head(snapshot: MonitorSnapshot, width: int, *, ascii_only: bool) -> Iterator[Line]:
    rate = snapshot.rollouts_per_minute
    view = ProgressView(
        expected=snapshot.expected,
        resolved=snapshot.ended,
        elapsed=snapshot.elapsed,
        rate=None if rate is None else rate / 60,
    )
    yield [Segment(bar_line(view, width, ascii_only=ascii_only))]
    yield from _flowed(_count_items(snapshot), width, "  ")
    yield from _flowed([*_numbers(snapshot), *_phase_items(snapshot)], width, " | ")
    for words, style in _notes(snapshot):
        yield [Segment(words, style)]


def _count_items(snapshot: MonitorSnapshot) -> Iterator[Item]:
    for state, count in _shown_counts(snapshot):
        share = snapshot.share(state)
        percent = f" {100 * share:.0f}%" if share is not None else ""
        yield state.mark, f"{count} {state.words}{percent}"
    if snapshot.overdue:
        yield OVERDUE_MARK, f"{snapshot.overdue} overdue"


def _shown_counts(snapshot: MonitorSnapshot) -> Iterator[tuple[TaskState, int]]:
    for state in TaskState:
        count = snapshot.counts.get(state, 0)
        if count or state not in _RARE:
            yield state, count


def _numbers(snapshot: MonitorSnapshot) -> Iterator[Item]:
    rate, success = snapshot.rollouts_per_minute, snapshot.success_rate
    yield "", f"{'?' if rate is None else f'{rate:.1f}'}/min"
    yield "", f"success rate {'-' if success is None else f'{100 * success:.1f}%'}"
    if not snapshot.finished:
        open_ = sum(
            snapshot.counts.get(state, 0) for state in (TaskState.WAITING, TaskState.RUNNING)
        )
        yield "", f"in flight {min(open_, snapshot.in_flight_limit)}/{snapshot.in_flight_limit}"
    yield "", f"retried {snapshot.retried}"
    yield "", f"timeouts {snapshot.timeouts}"
    if snapshot.resumed:
        yield "", f"continued with {snapshot.resumed} of {snapshot.expected} done"


def _phase_items(snapshot: MonitorSnapshot) -> Iterator[Item]:
    known = [phase for phase in PHASES if phase in snapshot.phases]
    others = sorted(snapshot.phases.keys() - set(PHASES))
    for phase in (*known, *others):
        if snapshot.phases[phase]:
            yield "", f"{phase} {snapshot.phases[phase]}"


def _notes(snapshot: MonitorSnapshot) -> Iterator[tuple[str, Style]]:
    """The most frequent failure, why the run stops, and missed events."""
    if snapshot.failures:
        kind, count = max(snapshot.failures.items(), key=lambda item: item[1])
        failed = snapshot.counts.get(TaskState.FAILED, 0)
        yield (
            f"failing: {count} x {kind} ({_MEANINGS.get(kind, '?')})",
            _ALARM if failed else _WARNING,
        )
    if snapshot.stopping and not snapshot.finished:
        yield snapshot.stopping, _WARNING
    if snapshot.missed:
        yield f"{snapshot.missed} events were missed; the summary has exact counts", _WARNING


def _cells(snapshot: MonitorSnapshot, plan: GridPlan, width: int) -> Iterator[Line]:
    each = plan.merged * snapshot.rollouts_per_cell
    scale = "one cell per rollout" if each == 1 else f"one cell for {each} rollouts"
    title = f"{snapshot.title}: {scale} " if snapshot.title else f"{scale} "
    yield [Segment("- "), Segment(title, _BOLD), Segment("-" * width, _FAINT)]
    steps = {task.cell: task.step for task in snapshot.live if task.state is TaskState.RUNNING}
    yield from grid_lines(snapshot.cells, {} if each > 1 else steps, plan)


def _slow_row(task: LiveTask) -> Line:
    mark = OVERDUE_MARK if task.overdue else task.state.mark
    where = f"step {task.step:<3} {task.phase:<10} {clock_time(task.phase_seconds):>5}"
    return [
        Segment(mark, STYLES[mark]),
        Segment(f"{clock_time(task.seconds):>8}  {where}  {_name(task)}"),
    ]


def _slow_line(task: LiveTask) -> str:
    overdue = ", overdue" if task.overdue else ""
    return f"({_name(task)}: step {task.step} {task.phase} {task.seconds:.0f} s{overdue})"


def _name(task: LiveTask) -> str:
    name = f"{task.task}" if not task.repeat else f"{task.task}/{task.repeat}"
    retry = f" (attempt {task.attempt})" if task.attempt > 1 else ""
    return f"{name}{retry} {printable_line(task.label)}".rstrip()


def _flowed(items: Iterable[Item], width: int, separator: str) -> Iterator[Line]:
    """Items in rows, on as many lines as they need."""
    line: Line = []
    used = 0
    for mark, words in items:
        size = len(words) + (2 if mark else 0)
        if line and used + len(separator) + size > width:
            yield line
            line, used = [], 0
        if line:
            line.append(Segment(separator))
            used += len(separator)
        if mark:
            line += [Segment(mark, STYLES.get(mark)), Segment(" ")]
        line.append(Segment(words))
        used += size
    if line:
        yield line
