"""The HTTP client of the browser server: sessions, screenshots, commands, navigation."""

from webgym.client.client import (
    BrowserClient,
    BrowserSession,
    ServerInfo,
)
from webgym.client.sync_client import (
    SyncBrowserClient,
    SyncBrowserSession,
)

__all__ = [
    "BrowserClient",
    "BrowserSession",
    "ServerInfo",
    "SyncBrowserClient",
    "SyncBrowserSession",
]
