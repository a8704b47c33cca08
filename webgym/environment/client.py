"""The HTTP client of the browser server: sessions, screenshots, commands, navigation."""

from webgym.browser.contract.answers import ServerInfo
from webgym.client.client import BrowserClient, BrowserSession
from webgym.client.sync_client import SyncBrowserClient, SyncBrowserSession

__all__ = [
    "BrowserClient",
    "BrowserSession",
    "ServerInfo",
    "SyncBrowserClient",
    "SyncBrowserSession",
]
