"""Links that lead out of a folder, which are not followed unless somebody names them."""

from pathlib import Path


def is_in(path: Path, root: Path) -> bool:
    """Whether a path is in a folder, itself resolved, once its links are followed."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # links in a circle
        return False
