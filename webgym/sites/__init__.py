"""The bundled test sites: a small web without real content, its tasks, and their checks.

`application` serves the sites (`serving`), and `tasks` has the tasks, how an attempt is scored, and
a recorded solution for each.
"""

COOKIE = "sites_session"
PARAMETER = "session"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7300
DEFAULT_BASE = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
