"""Counterparts in processes of their own, for as long as a test needs them."""

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.counterparts.wire import PATIENCE

ROOT = Path(__file__).parents[2]


def running(name: str, *options: str) -> AbstractContextManager[str]:
    """Run a counterpart on a free port; gives its URL once it listens."""
    return running_module(f"tests.counterparts.{name}", *options)


@contextmanager
def running_module(module: str, *options: str) -> Iterator[str]:
    """Run any module that lives as counterparts do (see `life.py`)."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--end-with-stdin", *options],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    with process:
        try:
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else ""
            assert line, f"{module} did not start; see its standard error"
            yield json.loads(line)["url"]
        finally:
            process.kill()
