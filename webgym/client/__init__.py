"""The client of the browser server, in this process or through worker processes.

This package imports nothing by itself, because every worker process pays for what it imports.
"""
