"""Whether Chromium can put its own sandbox around the pages here.

On Linux it needs either a helper of its own that is setuid root, or user namespaces, which root
inside many containers and some distributions do not have. Without them it does not start at all
unless it is told to do without. Root is refused a sandbox by Chromium itself.

User namespaces are tried, in a process of their own, because no setting tells the truth: a
container's filter may forbid them, and some systems allow one but no rights inside it.
"""

import functools
import os
import stat
import subprocess
import sys
from pathlib import Path

_HELPERS = ("chrome-sandbox", "chrome_sandbox")
_PROBE_TIMEOUT = 10.0
_PROBE = """
import ctypes, sys
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
library = ctypes.CDLL(None)
sys.exit(library.unshare(NEW_USER) != 0 or library.unshare(NEW_NETWORK) != 0)
"""


def sandbox_is_possible(browser: Path) -> bool:
    """Whether this browser can run with its sandbox, as this user, on this machine."""
    if sys.platform != "linux":
        return True
    if os.geteuid() == 0:
        return False
    return _has_helper(browser) or _has_user_namespaces()


def _has_helper(browser: Path) -> bool:
    for name in _HELPERS:
        helper = browser.resolve().parent / name
        if helper.exists():
            found = helper.stat()
            return found.st_uid == 0 and bool(found.st_mode & stat.S_ISUID)
    return False


@functools.cache
def _has_user_namespaces() -> bool:
    probe = subprocess.run(  # noqa: S603 - a constant
        [sys.executable, "-I", "-c", _PROBE],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_PROBE_TIMEOUT,
        check=False,
    )
    return probe.returncode == 0
