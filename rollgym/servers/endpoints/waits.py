"""How long a server asks us to stay away.

Three ways to say it are in use: `retry-after-ms`, `retry-after` in seconds or as a date, and, of
OpenAI, "Please try again in 6m0.5s" in the message.
"""

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_PHRASE = re.compile(r"try again in ((?:\d+(?:\.\d+)?(?:ms|[smh]))+)", re.IGNORECASE)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smh])", re.IGNORECASE)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_WAIT = 1e9


def requested_wait(headers: Mapping[str, str], message: str, clock: float) -> float | None:
    """Seconds to wait, or None where nothing sensible is asked for. `clock` is the Unix time."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "")
    asked = _seconds(header)
    if asked is None:
        asked = _until(header, clock)
    return _phrase(message) if asked is None else asked


def _seconds(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= LONGEST_WAIT else None


def _until(text: str, clock: float) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone would be read in ours; HTTP's dates are in UTC.
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, date.timestamp() - clock)


def _phrase(message: str) -> float | None:
    found = _PHRASE.search(message)
    if not found:
        return None
    parts = _PART.findall(found.group(1))
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in parts)
