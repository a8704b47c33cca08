"""Why nothing was exported."""

from collections.abc import Sequence
from pathlib import Path

from rollgym.store import RefusedError

SHOWN = 20


class ExportError(RefusedError):
    """The rollouts cannot be exported as asked, and no file was written."""


class BadRowsError(ExportError):
    """Lines of the file are no rollouts; the first of them are named with what is wrong."""

    def __init__(self, path: Path, problems: Sequence[tuple[int, str]]) -> None:
        shown = [f"{path}:{line}: {problem}" for line, problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            shown.append("... and more")
        advice = "Nothing was written. Export the file that ng_collect_rollouts wrote."
        super().__init__("\n".join([*shown, advice]))
