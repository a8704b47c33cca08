"""A disk that never responds does not keep the process alive."""

import subprocess
import sys
from pathlib import Path

DEAD_DISK = """
import asyncio, sys, threading
from pathlib import Path
from rollgym.store import Disk, StorageError, disk, journal
from tests.builders import encode_attempt, record

class DeadDisk(Disk):
    def sync(self, descriptor):
        if threading.current_thread() is not threading.main_thread():
            threading.Event().wait()

journal.SYNC_TIMEOUT = disk.EXTRA_WAIT = disk.CLOSE_TIMEOUT = 0.1
written = journal.Journal(Path(sys.argv[1]), DeadDisk())
written.append(encode_attempt(record()))
try:
    asyncio.run(written.sync())
except StorageError as error:
    print(error)
written.close()
"""


def test_the_interpreter_ends_though_a_sync_does_not(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DEAD_DISK, tmp_path / "journal.jsonl"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "did not finish a sync" in done.stdout
