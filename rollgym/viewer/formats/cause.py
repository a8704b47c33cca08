"""What failures have in common: a message without what differs from one rollout to the next.

Addresses, paths, names in quotes, identifiers and numbers give way to placeholders, so that a
thousand failures of one cause are one group. Codes stay: HTTP 503 is another cause than HTTP 429.
"""

import re
from functools import lru_cache

from rollgym.monitor import printable_line

CAUSE_LIMIT = 200
_SOMETHING = "…"
_READ = 4 * CAUSE_LIMIT

_PLACES = re.compile(
    r"""
      \b[a-z][a-z0-9+.-]*://[^\s"'<>`|,;]+              # an address with a scheme
    | (?<![\w.])(?:~|\.{1,2})?(?:/[\w.@%+~-]+)+/?       # a path
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?        # an IPv4 address, with a port or without
    | \[[0-9a-f:]*::?[0-9a-f:]*\](?::\d+)?              # an IPv6 address in brackets
    | \b[a-z0-9][a-z0-9.-]*[a-z0-9]:\d{2,5}\b           # a host with a port
    """,
    re.IGNORECASE | re.VERBOSE,
)
_QUOTED = re.compile(r"""(?<!\w)(["'`])(?:(?!\1).)+\1(?!\w)""")
_IDENTIFIERS = re.compile(
    r"""
      (?<![0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])   # a UUID
    | (?<![0-9a-z])0x[0-9a-f]+(?![0-9a-z])
    | (?<![0-9a-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?![0-9a-z])
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NUMBERS = re.compile(
    r"""
      (?P<code>
        \b(?:HTTP(?:/\d(?:\.\d)?)?|status(?:[ _]code)?|code|errno)[ :=(]{1,3}\d{1,5}(?![\d.]*\d)
      )
    | (?<![A-Za-z0-9])[-+]?\d+(?:[.,_]\d+)*(?:e[-+]?\d+)?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LISTS = re.compile(r"(N|…)(?:(?:,| and|, and) \1)+")


@lru_cache(maxsize=4096)
def _common(message: str) -> str:
    common = _PLACES.sub(_SOMETHING, message)
    common = _QUOTED.sub(rf"\g<1>{_SOMETHING}\g<1>", common)
    common = _IDENTIFIERS.sub(_SOMETHING, common)
    common = _NUMBERS.sub(lambda found: found["code"] or "N", common)
    return printable_line(_LISTS.sub(rf"\g<1>, {_SOMETHING}", common), CAUSE_LIMIT)


def cause_of(message: str) -> str:
    """The message in one line of at most 200 characters, the same for the same cause."""
    return _common(printable_line(message, _READ))
