"""The token of a command that listens on a port, from an environment variable."""

import os
import re

from rollgym.servers.access import is_loopback
from rollgym.store import RefusedError


def listening_token(host: str, variable: str | None) -> str | None:
    """The token that clients must send; None on loopback where no variable is named.

    Raises RefusedError where a token is missing or too short.
    """
    if variable is None:
        if is_loopback(host):
            return None
        raise RefusedError(f"--host {host} needs a token: name it with --token-env")
    token = os.environ.get(variable, "")
    if not re.fullmatch(r"[!-~]{16,}", token):
        raise RefusedError(
            f"--token-env: the variable {variable} has no token of at least 16 visible characters; "
            "make one with `openssl rand -hex 24`"
        )
    return token
