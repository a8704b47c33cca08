"""Web rollouts for the viewer: where they are, what is kept of them, how each is shown."""

from webgym.viewing.opener import open_web

__all__ = ["open_web"]
