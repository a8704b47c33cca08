"""The policies' command in a process of its own."""

import re
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 60.0
COMMAND = (sys.executable, "-m", "webgym.policies")


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and the URL that it printed."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process, _url(process)
        finally:
            process.kill()


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline() if ready else ""
    found = re.search(r"ready at (http://\S+):", line)
    assert found, f"no URL in {line!r}"
    return found[1]
