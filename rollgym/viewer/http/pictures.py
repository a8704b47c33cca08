"""Pictures that are files: screenshots, in the folder that the source names, and nothing else.

A path is resolved first, and must then lie in the folder, itself resolved: so neither `..` nor a
link leads out. The file is opened from the folder on, name by name and without following links, so
that what changes meanwhile does not lead out either. It must be a plain file and begin as a picture
does: what a file is called says nothing. SVG is no picture here, since it may hold scripts.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from rollgym.viewer.documents.images import media_type_of
from rollgym.viewer.errors import PageError
from rollgym.viewer.view import Picture

LARGEST_PICTURE = 32 << 20
_STEP = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_picture(folder: Path | None, name: str) -> Picture:
    """The picture at a path in the folder. Raises PageError."""
    if folder is None:
        raise _absent("these rollouts have no folder of pictures")
    try:
        with _opened(folder, name) as descriptor:
            data = _content(descriptor)
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle; a NUL in the name
        raise _absent("it is not in the folder of these rollouts") from error
    kind = media_type_of(data)
    if kind is None:
        raise PageError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "The file is no PNG, JPEG, GIF or WebP picture; nothing else is shown.",
        )
    return Picture(kind, data)


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int]:
    """Raises OSError, RuntimeError, ValueError."""
    root = folder.resolve(strict=True)
    *folders, last = (root / name).resolve(strict=True).relative_to(root).parts or (".",)
    descriptors = [os.open(root, _STEP | os.O_DIRECTORY)]
    try:
        for part in folders:
            descriptors.append(os.open(part, _STEP | os.O_DIRECTORY, dir_fd=descriptors[-1]))
        # Without waiting: opening a pipe would wait for somebody to write.
        descriptors.append(os.open(last, _STEP | os.O_NONBLOCK, dir_fd=descriptors[-1]))
        yield descriptors[-1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _content(descriptor: int) -> bytes:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("no plain file")
    if about.st_size > LARGEST_PICTURE:
        raise PageError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The picture has {about.st_size >> 20} MiB; up to {LARGEST_PICTURE >> 20} are shown.",
        )
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(LARGEST_PICTURE)


def _absent(why: str) -> PageError:
    return PageError(HTTPStatus.NOT_FOUND, f"There is no such picture: {why}.")
