"""What is known of a task, from its row."""

import msgspec

from rollgym.records import Row, RowError
from rollgym.viewer.formats.facts import facts_of_row
from rollgym.viewer.source import Context, FactsOf
from rollgym.viewer.summary import NO_FACTS, TaskFacts


def facts_in(task: msgspec.Raw) -> TaskFacts:
    """What the row of a trajectory says; nothing where there is none."""
    try:
        return facts_of_row(Row.parse(bytes(task)))
    except RowError:
        return NO_FACTS


def facts_from(context: Context) -> FactsOf:
    """What the inputs of a source say of a task."""

    def facts_of(task: int) -> TaskFacts | None:
        row = context.input_row(task)
        return None if row is None else facts_of_row(row)

    return facts_of
