"""How a session is named in a request, and the default address of the sites."""

COOKIE = "sites_session"
PARAMETER = "session"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7300
DEFAULT_BASE = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
