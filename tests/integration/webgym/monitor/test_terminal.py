"""The monitor on a real terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

PROGRAM = "tests.integration.webgym.monitor.watched_run"
ROOT = Path(__file__).parents[4]
PATIENCE = 60.0
HIDE, SHOW, CLEAR = b"\x1b[?25l", b"\x1b[?25h", b"\x1b[2J\x1b[H"


class Terminal:
    """A pseudo terminal with the program on it, and everything it wrote."""

    def __init__(self, how: str, seconds: float) -> None:
        self.master, slave = pty.openpty()
        self.written = b""
        self.resize(80, 24)
        environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, how, str(seconds)],
            cwd=ROOT,
            env=environment | {"TERM": "xterm"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text: bytes | None) -> None:
        """Until this was written; None: until the program has ended."""
        until = time.monotonic() + PATIENCE
        while text is None or text not in self.written:
            assert time.monotonic() < until, self.written[-2000:]
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:  # Linux, when nobody holds the other side any more
                data = b""
            if not data:
                break
            self.written += data
        if text is None:
            self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.master)


def left_clean(written: bytes) -> bool:
    """The cursor is shown, and what comes next begins on a line of its own."""
    shown = written.rindex(SHOW)
    drawn = written.rindex(b"Collecting rollouts")
    return written.count(HIDE) == written.count(SHOW) == 1 and drawn < shown


def test_however_the_run_ends_the_terminal_is_left_clean() -> None:
    cases: list[str] = ["finish", "raise", "interrupt"]
    for how in cases:
        terminal = Terminal(how, 0.6)
        try:
            terminal.read_until(b"test run: one cell per rollout")
            if how == "interrupt":
                time.sleep(0.8)
                os.killpg(terminal.process.pid, signal.SIGINT)
            terminal.read_until(None)
        finally:
            terminal.close()
        assert left_clean(terminal.written)
        after = terminal.written[terminal.written.rindex(SHOW) :]
        wanted = {"finish": b"CPU", "raise": b"RuntimeError", "interrupt": b"KeyboardInterrupt"}
        assert wanted[how] in after


def test_a_terminal_whose_size_changes_is_cleared_and_drawn_anew() -> None:
    terminal = Terminal("finish", 2.0)
    try:
        terminal.read_until(b"test run: one cell per rollout")
        assert CLEAR not in terminal.written
        terminal.resize(60, 18)
        terminal.read_until(CLEAR)
        terminal.read_until(None)
    finally:
        terminal.close()
    after = terminal.written[terminal.written.rindex(CLEAR) :]
    assert b"one cell for " in after
    assert left_clean(terminal.written)
