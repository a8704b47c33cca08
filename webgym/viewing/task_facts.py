"""What is known of a task, from its row."""

import msgspec

from rollgym.records import Row, RowError
from rollgym.viewer.formats.facts import facts_of_row
from rollgym.viewer.summary import NO_FACTS, TaskFacts


def facts_in(task: msgspec.Raw) -> TaskFacts:
    """What the row of a trajectory says; nothing where there is none."""
    try:
        return facts_of_row(Row.parse(bytes(task)))
    except RowError:
        return NO_FACTS
