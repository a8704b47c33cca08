"""A thousand open files, the usual limit, are not enough for two thousand connections."""

import subprocess
import sys

PROGRAM = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
from rollgym.cli.process import OPEN_FILES, prepare_process
prepare_process()
soft, now = resource.getrlimit(resource.RLIMIT_NOFILE)
assert now == hard
assert soft == (OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)), soft
prepare_process()
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft
"""


def test_a_command_asks_for_more_than_the_usual_limit() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
