"""`python -m rollgym` is the `rollgym` command."""

from rollgym.cli.main import entry

entry()
