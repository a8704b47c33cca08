"""A rollout as one file that opens anywhere, without a server."""

from rollgym.viewer.offline.page import offline_page

__all__ = ["offline_page"]
