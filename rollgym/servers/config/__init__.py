"""From command-line overrides and YAML files to the checked servers of a run.

Its names are imported from its modules: reading files needs libraries that the process of a server
need not import.
"""
