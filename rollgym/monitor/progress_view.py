"""The present state of a collection, and its lines of text.

Everything here is a pure function of the state and the width, so it can be tested without a
terminal.
"""

from collections.abc import Iterator

import msgspec

TITLE = "Collecting rollouts"
WIDEST = 120
NARROWEST_BAR = 6
_EIGHTHS = " ▏▎▍▌▋▊▉"


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers that a display shows.

    `resolved` rollouts have an outcome and will not run again. `rate` is per second. `in_flight` is
    None after the end. `failure` is a printable line about the most frequent kind of failure,
    `stopping` one about why the collection ends early or waits. Without an end, `expected` is None.
    `further` are items of the command.
    """

    expected: int | None
    resolved: int
    elapsed: float
    rate: float | None = None
    avg_reward: float | None = None
    success_rate: float | None = None
    avg_tool_calls: float | None = None
    avg_response_length: float | None = None
    in_flight: int | None = 0
    limit: int = 0
    retried: int = 0
    failed: int = 0
    omitted: int = 0
    failure: str | None = None
    stopping: str | None = None
    further: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        if self.expected is None:
            return None
        return min(1.0, self.resolved / self.expected) if self.expected > 0 else 1.0

    @property
    def remaining_seconds(self) -> float | None:
        if self.expected is None:
            return None
        left = max(0, self.expected - self.resolved)
        if left == 0:
            return 0.0
        return left / self.rate if self.rate else None


def bar_line(view: ProgressView, width: int, *, ascii_only: bool = False) -> str:
    """Title, percentage, bar, counts and times in `width` columns; no bar if they are few."""
    if view.share is None:
        return f"{TITLE}: {_counts(view)}"
    head = f"{TITLE}: {_percent(view.share)}%"
    tail = f"{view.resolved}/{view.expected} {times(view)}"
    bar_width = min(width, WIDEST) - len(head) - len(tail) - 3
    if bar_width < NARROWEST_BAR:
        return f"{head} {tail}"
    return f"{head}|{_bar(view.share, bar_width, ascii_only=ascii_only)}| {tail}"


def times(view: ProgressView) -> str:
    """In the form `[elapsed<remaining, rate]`; without an end, `[elapsed, rate]`."""
    if view.expected is None:
        return f"[{clock_time(view.elapsed)}, {rate_text(view.rate)}]"
    remaining = view.remaining_seconds
    left = "?" if remaining is None else clock_time(remaining)
    return f"[{clock_time(view.elapsed)}<{left}, {rate_text(view.rate)}]"


def detail_items(view: ProgressView) -> list[str]:
    """The numbers as short items; lines are broken between them."""
    items = [
        f"avg_reward {_number(view.avg_reward)}",
        f"success_rate {_number(view.success_rate)}",
    ]
    if view.avg_tool_calls is not None:
        items.append(f"avg_tool_calls {view.avg_tool_calls:.2f}")
    if view.avg_response_length is not None:
        items.append(f"avg_response_length {view.avg_response_length:.1f}")
    if view.in_flight is not None:
        items.append(f"in flight {view.in_flight}/{view.limit}")
    items += [f"retried {view.retried}", f"failed {view.failed}"]
    if view.omitted:
        items.append(f"omitted {view.omitted}")
    return [*items, *view.further]


def flow(items: list[str], width: int) -> Iterator[str]:
    """Items side by side, on as many lines as needed."""
    line = ""
    for item in items:
        longer = f"{line} | {item}" if line else item
        if line and len(longer) > width:
            yield line
            line = item
        else:
            line = longer
    if line:
        yield line


def plain_line(view: ProgressView) -> str:
    """Everything on one line, for logs."""
    notes = [note for note in (view.failure, view.stopping) if note]
    return f"{TITLE}: {_counts(view)} " + ", ".join([*detail_items(view), *notes])


def _counts(view: ProgressView) -> str:
    if view.share is None:
        return f"{view.resolved} {times(view)}"
    return f"{_percent(view.share).lstrip()}% {view.resolved}/{view.expected} {times(view)}"


def clock_time(seconds: float) -> str:
    """Format seconds as 00:12, or as 1:02:03 from an hour on."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute:02}:{second:02}"


def rate_text(rate: float | None) -> str:
    """Format a rate per second, minute or hour, whichever gives it digits."""
    if rate is None:
        return "?it/s"
    if rate >= 1:
        return f"{rate:.2f}it/s"
    return f"{rate * 60:.2f}it/min" if rate * 60 >= 1 else f"{rate * 3600:.2f}it/h"


def _bar(share: float, width: int, *, ascii_only: bool) -> str:
    if ascii_only:
        return ("#" * int(share * width)).ljust(width)
    full, eighths = divmod(int(share * width * 8), 8)
    return ("█" * full + _EIGHTHS[eighths].strip()).ljust(width)


def _percent(share: float) -> str:
    """Round down, so that 100 means all."""
    return f"{int(share * 100):3d}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
