"""The kinds of records that rollgym writes: how each is summarised and shown."""

from rollgym.viewer.formats.journal import JOURNAL
from rollgym.viewer.formats.rollouts import ROLLOUTS

__all__ = ["JOURNAL", "ROLLOUTS"]
