"""Queries over an index: filters, lists, tables, charts, comparisons and text search.

Each module answers one kind of question with a frozen struct, which is the JSON of the viewer's
interface. The functions take a connection that sees one state of an index, as
`SourceIndex.reading` gives it, and a `Filter`. They change nothing.
"""
