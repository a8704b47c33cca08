"""Names of sessions, and the default address of the sites."""

import re
from secrets import token_hex

COOKIE = "sites_session"
PARAMETER = "session"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7300
DEFAULT_BASE = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
_NAME = re.compile(r"[A-Za-z0-9]{1,64}")


def is_name(text: str) -> bool:
    """Whether the text is a valid session name: 1 to 64 letters and digits."""
    return _NAME.fullmatch(text) is not None


def new_name() -> str:
    """A new session name that cannot be guessed."""
    return token_hex(16)
