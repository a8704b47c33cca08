"""What is asked of an index: filters, lists, tables, charts, comparisons and text search.

Each module answers one kind of question with a frozen struct that is the JSON of the viewer's
interface. The functions take a connection that sees one state of an index, as
`SourceIndex.reading` gives it, and a `Filter`; they change nothing.
"""

from rollgym.viewer.queries.causes import failures
from rollgym.viewer.queries.configuration import Run, configuration
from rollgym.viewer.queries.coverage import Coverage, coverage, totals
from rollgym.viewer.queries.facets import facets
from rollgym.viewer.queries.filter import PARAMETERS, Filter
from rollgym.viewer.queries.grid import grid
from rollgym.viewer.queries.joined import JoinedQuery, Side, joined
from rollgym.viewer.queries.listing import listing, neighbours
from rollgym.viewer.queries.orders import Orders, all_entries
from rollgym.viewer.queries.overview import overview
from rollgym.viewer.queries.related import related, repeats
from rollgym.viewer.queries.search import Found, Search, Searches
from rollgym.viewer.queries.tasks import TASK_SORTS, tasks

__all__ = [
    "PARAMETERS",
    "TASK_SORTS",
    "Coverage",
    "Filter",
    "Found",
    "JoinedQuery",
    "Orders",
    "Run",
    "Search",
    "Searches",
    "Side",
    "all_entries",
    "configuration",
    "coverage",
    "facets",
    "failures",
    "grid",
    "joined",
    "listing",
    "neighbours",
    "overview",
    "related",
    "repeats",
    "tasks",
    "totals",
]
