"""Commands that listen on a port: the token of their clients, and what is wrong with the port."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from rollgym.servers.access import is_loopback
from rollgym.servers.launch.records import StartError
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


@contextmanager
def listening_errors(what: str, host: str, port: int) -> Iterator[None]:
    """Raises StartError where the block cannot listen on the port."""
    try:
        yield
    except OSError as error:
        raise StartError(
            f"{what} cannot listen on {host} port {port} ({error.strerror}): choose --port"
        ) from error
