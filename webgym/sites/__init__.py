"""The bundled test sites: a small web without real content, its tasks, and their checks.

`application` serves the sites (`serving`), and `tasks` has the tasks, how an attempt is scored, and
a recorded solution for each.
"""
