"""The index of a source: where its records are, and enough of each for lists and charts."""

from rollgym.viewer.index.entry_id import EntryId
from rollgym.viewer.index.lines import LONGEST_RECORD
from rollgym.viewer.index.source_index import IndexState, SourceIndex

__all__ = ["LONGEST_RECORD", "EntryId", "IndexState", "SourceIndex"]
