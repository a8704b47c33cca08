"""Leaving at once, whatever the process is doing."""

import subprocess
import sys

LEFT_WHILE_PRINTING = """
import io, sys
from rollgym.cli.leaving import leave

class Interrupted(io.RawIOBase):
    def writable(self):
        return True

    def write(self, data):
        leave(5)  # as the handler of a signal that comes now would

sys.stdout = io.TextIOWrapper(io.BufferedWriter(Interrupted()))
print("text", flush=True)
"""


def test_a_signal_in_the_middle_of_printing_ends_the_process_with_its_status() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEFT_WHILE_PRINTING], capture_output=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stderr) == (5, b"")
