"""Ports for servers whose address is known before they start, or kept when they start again."""

import random
import socket

# Below the range from which systems give connections their ports: nobody takes one of these while
# its server is away.
_LOWEST, _HIGHEST = 20_000, 29_999


def free_port() -> int:
    """A port of 127.0.0.1 on which nobody listens."""
    while True:
        port = random.randint(_LOWEST, _HIGHEST)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
