"""Which state of an index a connection sees."""

import sqlite3


def version_of(connection: sqlite3.Connection) -> int:
    """A number that grows whenever rows changed; 0 where the index has none."""
    found = connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
    return int(found[0]) if found else 0
