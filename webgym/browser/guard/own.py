"""Whether an address is this machine's own.

A server that listens on all addresses is reached under each of them, and a page that guesses one
must not reach the browser server that runs it. A socket can be bound to an address of the machine
and to no other, which asks the system itself and is right after every change of the network.
"""

import socket

from webgym.browser.guard.addresses import Address, Kind, kind_of


def is_own(address: Address) -> bool:
    """Whether connections to this address end on this machine."""
    if kind_of(address) in (Kind.LOOPBACK, Kind.UNSPECIFIED):
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
