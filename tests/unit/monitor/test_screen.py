import io
import time

import pytest
from rich.console import Console

from rollgym.monitor.progress_view import ProgressView
from rollgym.monitor.screen import LineScreen, LiveScreen, choose_screen

VIEW = ProgressView(
    expected=200,
    resolved=124,
    elapsed=12.0,
    rate=10.3,
    avg_reward=0.73,
    success_rate=0.68,
    in_flight=16,
    limit=16,
    retried=12,
    failed=3,
    failure="failing: 3 x tool (a tool or its server failed) [bold]not markup[/bold]",
    stopping="asked to stop",
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def drawn(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, record=True)
    console.print(LiveScreen(console, lambda: VIEW).render())
    return console.export_text().splitlines()


def test_a_terminal_gets_whole_lines_of_its_width() -> None:
    assert drawn(80) == [
        "Collecting rollouts:  62%|████████████▍       | 124/200 [00:12<00:07, 10.30it/s]",
        "avg_reward 0.730 | success_rate 0.680 | in flight 16/16 | retried 12 | failed 3",
        "failing: 3 x tool (a tool or its server failed) [bold]not markup[/bold]",
        "asked to stop",
    ]
    lines = drawn(200)
    assert len(lines) == 4
    assert len(lines[0]) == 120
    assert all(len(line) <= 40 for line in drawn(40))


def test_a_live_screen_draws_the_last_view_when_it_stops() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True)
    screen = LiveScreen(console, lambda: VIEW)
    screen.start()
    screen.stop()
    screen.stop()
    assert "124/200" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[?25h")  # the cursor is back


def test_a_pipe_gets_a_line_at_the_start_and_one_at_the_end() -> None:
    stream = io.StringIO()
    screen = LineScreen(stream, lambda: VIEW)
    screen.start()
    screen.stop()
    first, last = stream.getvalue().splitlines()
    assert first == "Collecting rollouts: 200 expected"
    assert last.startswith("Collecting rollouts: 62% 124/200 ")
    assert "\x1b" not in stream.getvalue()
    assert "\r" not in stream.getvalue()


def test_a_pipe_gets_further_lines_at_the_interval() -> None:
    stream = io.StringIO()
    screen = LineScreen(stream, lambda: VIEW, interval=0.02)
    screen.start()
    deadline = time.monotonic() + 10
    while stream.getvalue().count("\n") < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    screen.stop()
    assert stream.getvalue().count("\n") >= 5


def test_a_closed_or_narrow_stream_does_not_stop_the_run() -> None:
    stream = io.StringIO()
    screen = LineScreen(stream, lambda: VIEW)
    screen.start()
    stream.close()
    screen.stop()
    ascii_stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    view = ProgressView(expected=1, resolved=0, elapsed=0, failure="ä")
    screen = LineScreen(ascii_stream, lambda: view)
    screen.start()
    screen.stop()
    ascii_stream.seek(0)
    assert ascii_stream.read().rstrip().endswith("?")


def test_only_a_real_terminal_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(choose_screen(io.StringIO(), lambda: VIEW), LineScreen)
    assert isinstance(choose_screen(Terminal(), lambda: VIEW), LiveScreen)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_screen(Terminal(), lambda: VIEW), LineScreen)
