"""The bounds of what sessions may ask of the guard."""

import msgspec

MEBIBYTE = 1 << 20


class GuardLimits(msgspec.Struct, frozen=True):
    """How long, how many and how much. Times are in seconds, sizes in bytes."""

    handshake_seconds: float = 10.0
    """From a browser's connection to its whole request."""
    resolve_seconds: float = 10.0
    """For the addresses of a name, waiting for others' names included."""
    connect_seconds: float = 10.0
    """For each address."""
    addresses_tried: int = 3
    lookups_at_once: int = 4
    """Names that one session may have under way; more wait."""
    idle_seconds: float = 300.0
    """A connection that moves nothing for so long is closed; one that has half ended, sooner."""
    connections: int = 256
    """At once, in one session."""
    step_bytes: int = 64 * MEBIBYTE
    """What the pages of a session may move in one step."""
    remembered: int = 64
    """Refusals, and failures, that are kept until someone takes them."""
