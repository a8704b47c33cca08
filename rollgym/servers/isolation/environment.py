"""The environment variables of a worker.

The parent's variables often hold credentials, and what runs in a worker handles untrusted text, so
a worker inherits only what a Python program needs to run.
"""

import re
from collections.abc import Mapping

_INHERITED = re.compile(
    "PATH|HOME|USER|LANG|LC_.*|TZ|TMPDIR|VIRTUAL_ENV|PYTHON.*|(DY)?LD_.*|.*_NUM_THREADS"
)


def worker_environment(
    inherited: Mapping[str, str], additional: Mapping[str, str]
) -> dict[str, str]:
    """The variables that a Python program needs, and those asked for.

    Hashes are the same in every worker, so that the same call takes the same course in each.
    """
    kept = {name: value for name, value in inherited.items() if _INHERITED.fullmatch(name)}
    return {"PYTHONHASHSEED": "0"} | kept | dict(additional)
