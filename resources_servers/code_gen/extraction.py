"""Finding the program in an answer: the last fenced block of Python, else the last fenced block.

Fences are those of Markdown: three or more backticks or tildes, closed by at least as many of the
same. A block that is not closed is no block, for the answer was cut off in the middle of it.
"""

import re
import textwrap
from collections.abc import Iterator

_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})[ \t]*(?P<language>[^\s`{]*)[^`]*")
_PYTHON = {"python", "python3", "py"}


def extract_program(answer: str) -> str | None:
    """The program, None where the answer has no fenced block."""
    blocks = list(_blocks(answer))
    python = [code for language, code in blocks if language.lower() in _PYTHON]
    candidates = python or [code for _, code in blocks]
    return candidates[-1] if candidates else None


def _blocks(answer: str) -> Iterator[tuple[str, str]]:
    mark, language, lines = "", "", list[str]()
    # Not `splitlines`, which would also split where a program has a form feed.
    for line in answer.replace("\r\n", "\n").split("\n"):
        fence = _FENCE.fullmatch(line)
        if not mark:
            if fence:
                mark, language, lines = fence["mark"], fence["language"], []
        elif line.strip().startswith(mark) and not line.strip().strip(mark[0]):
            yield language, textwrap.dedent("\n".join(lines)) + "\n"
            mark = ""
        else:
            lines.append(line)
