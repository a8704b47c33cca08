"""The master: chooses the node for a new session, and finds the node of a request."""

from webgym.browser.master.master import Master
from webgym.browser.master.nodes import LocalNode, NodeHandle
from webgym.browser.master.remote import RemoteNode

__all__ = ["LocalNode", "Master", "NodeHandle", "RemoteNode"]
