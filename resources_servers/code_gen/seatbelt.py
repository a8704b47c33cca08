"""macOS: the profile for `sandbox-exec`, which takes the place of the layers that Linux has.

No network, no writing, no reading of people's files, no other programs. Processes can still be
started there, and memory is not limited.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

SEATBELT = "seatbelt"
_COMMAND = "sandbox-exec"


def available() -> bool:
    return sys.platform == "darwin" and shutil.which(_COMMAND) is not None


def wrapper(layers: Sequence[str]) -> list[str]:
    """What the command of a launcher has to begin with."""
    return [_COMMAND, "-p", _profile()] if SEATBELT in layers else []


def _profile() -> str:
    jail = Path(__file__).parent / "jail"
    subtrees = [f'(subpath "{path}")' for path in (sys.base_prefix, sys.prefix, jail)]
    # Python looks into each folder on the way to a module.
    folders = [f'(literal "{path}")' for path in jail.parents]
    readable = " ".join(subtrees + folders)
    return "\n".join(
        [
            "(version 1)",
            "(allow default)",
            "(deny network*)",
            "(deny file-write*)",
            '(allow file-write* (literal "/dev/null"))',
            '(deny file-read* (subpath "/Users") (subpath "/private/tmp") (subpath "/Volumes"))',
            f"(allow file-read* {readable})",
            "(deny signal (target others))",
        ]
    )
