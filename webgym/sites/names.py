"""What sessions are called, and where the sites are found unless somebody says otherwise."""

import re
from secrets import token_hex

COOKIE = "sites_session"
PARAMETER = "session"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 7300
DEFAULT_BASE = f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
_NAME = re.compile(r"[A-Za-z0-9]{1,64}")


def is_name(text: str) -> bool:
    """Whether a session may be called this: letters and digits, at most 64."""
    return _NAME.fullmatch(text) is not None


def new_name() -> str:
    """A name that nobody else has or can guess."""
    return token_hex(16)
