"""The host that a connection or a URL names: an address, or a name to be resolved.

Browsers rewrite every odd spelling of an address (`0x7f.1`, `2130706433`, full-width digits) before
they connect, so a proxy sees the plain one. A URL that is checked before it is given to a browser
has not been rewritten yet; `spelled_address` sees through the same spellings.
"""

import re
import socket
import unicodedata
from ipaddress import IPv4Address
from urllib.parse import unquote

from webgym.browser.guard.addresses import Address, read_address

LONGEST_NAME = 253
LOCALHOST = IPv4Address("127.0.0.1")
"""What `localhost` stands for. Not also `::1`: who allows the one has not allowed the other."""
_IDEOGRAPHIC_STOP = "\u3002"
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class HostError(ValueError):
    """This is no host. The message says why."""


def read_host(text: str) -> Address | str:
    """The address, or the name in lower case without its final dot. Raises HostError."""
    try:
        return read_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        name = text.lower().removesuffix(".")
    if not name or len(name) > LONGEST_NAME:
        raise HostError(f"a host name has 1 to {LONGEST_NAME} characters, not {len(name)}")
    for label in name.split("."):
        if not _LABEL.fullmatch(label):
            raise HostError(f"{name!r} is not a host name")
    return name


def is_localhost(name: str) -> bool:
    """Whether a name means this machine by definition, whatever a resolver may say."""
    return name == "localhost" or name.endswith(".localhost")


def spelled_address(host: str) -> Address | None:
    """The address that browsers take this host of a URL for; None: it is a name."""
    text = unicodedata.normalize("NFKC", unquote(host)).replace(_IDEOGRAPHIC_STOP, ".").lower()
    text = text.removesuffix(".")
    if text.startswith("["):
        text = text.removeprefix("[").removesuffix("]")
    elif _NUMBER.fullmatch(text.rpartition(".")[2]):
        try:
            return IPv4Address(socket.inet_aton(text))
        except (OSError, ValueError):
            return None
    try:
        return read_address(text)
    except ValueError:
        return None
