"""Searches with the regular expression of a task. Runs in isolated workers only.

The task's author wrote the expression and the model wrote the text, and the two together may need
more time than there is.
"""

import re
from collections import deque

LONGEST_CAPTURE = 1_000


def search(pattern: str, text: str) -> dict[str, str | None]:
    """What the last match captured, or why the expression is invalid; both None without a match.

    The capture is the first group that is not empty, or the whole match of an expression without
    groups. Capital letters make no difference.
    """
    try:
        expression = re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        return {"captured": None, "invalid": str(error)}
    matches = deque(expression.finditer(text), maxlen=1)
    if not matches:
        return {"captured": None, "invalid": None}
    groups = [group for group in matches[0].groups() if group] or [matches[0][0]]
    return {"captured": groups[0][:LONGEST_CAPTURE], "invalid": None}
