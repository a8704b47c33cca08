"""Process isolation: browser requests in supervised worker processes."""

from webgym.client.isolation import IsolatedBrowserClient, IsolatedBrowserSession, ProcessIsolator

__all__ = ["IsolatedBrowserClient", "IsolatedBrowserSession", "ProcessIsolator"]
