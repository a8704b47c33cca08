"""Which state of an index a connection sees."""

import sqlite3


def version_of(connection: sqlite3.Connection) -> int:
    """A number that grows whenever rows changed; 0 where the index has none."""
    found = connection.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
    return int(found[0]) if found else 0


def begun_of(connection: sqlite3.Connection) -> int:
    """The version at which the files were begun to be read: another one once they are read anew.

    As long as it stays, an entry's number and place stand for the same bytes.
    """
    found = connection.execute("SELECT value FROM about WHERE name = 'begun'").fetchone()
    return int(found[0]) if found else 0
