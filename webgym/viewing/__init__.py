"""Web rollouts in the viewer: finding them, indexing them, and showing each of them."""

from webgym.viewing.opener import open_web

__all__ = ["open_web"]
