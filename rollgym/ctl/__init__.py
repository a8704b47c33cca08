"""`rollgym ctl`: changing a running collection from another process, over a Unix socket.

The process that collects has the socket beside its journal, for its own user only (`sockets`). A
request is a command (`commands`) as one line of JSON, and so is the answer.
"""

from rollgym.ctl.commands import ControlAnswer
from rollgym.ctl.sockets import ControlUnreachableError, ask, control_socket, sockets_of

__all__ = [
    "ControlAnswer",
    "ControlUnreachableError",
    "ask",
    "control_socket",
    "sockets_of",
]
