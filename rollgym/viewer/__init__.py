"""What you see afterwards: the rollouts of a file in a browser, as pages made on the server."""

from rollgym.viewer.errors import ViewerError
from rollgym.viewer.server import serving

__all__ = ["ViewerError", "serving"]
