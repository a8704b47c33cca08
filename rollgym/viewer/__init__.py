"""What you see afterwards, and meanwhile: rollouts of any size in a browser.

`server.serving` shows what is at some paths. Packages that bring formats of their own import
`source`, `view` and `summary`, and load nothing of the server with them.
"""

from rollgym.viewer.errors import ViewerError

__all__ = ["ViewerError"]
