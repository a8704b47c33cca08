"""The environment variables of a Chromium.

Ours hold tokens and keys, and a browser runs what strangers wrote. So it inherits only what a
program needs to run. Its home is its own folder: no certificates, no settings and no caches of the
user, and nothing is left behind there.
"""

import re
from collections.abc import Mapping
from pathlib import Path

_INHERITED = re.compile("PATH|LANG|LANGUAGE|LC_.*|TZ|FONTCONFIG_.*|LD_LIBRARY_PATH")


def browser_environment(inherited: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What a browser whose own folder this is may know."""
    kept = {name: value for name, value in inherited.items() if _INHERITED.fullmatch(name)}
    return kept | {"HOME": str(folder), "TMPDIR": str(folder)}
