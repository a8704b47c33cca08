"""The viewer: rollouts of any size in a browser, while they are collected and afterwards.

`server.serving` serves the rollouts at the given paths. Packages that add formats import `source`,
`view` and `summary`, which do not load the server.
"""

from rollgym.viewer.errors import ViewerError

__all__ = ["ViewerError"]
