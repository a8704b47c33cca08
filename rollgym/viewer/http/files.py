"""Files that the viewer serves: its own page, and pictures and HAR files in a source's folder.

*The page.* A file of `rollgym/viewer/static` is served only if the folder lists its name and its
suffix is known. Files are read for every request, and browsers revalidate them (`ETag`), so that no
page mixes two versions after an upgrade.

*Pictures.* The path is resolved first and must then lie in the resolved folder, so neither `..` nor
a link leads out. The file is opened from the folder on, name by name and without following links,
so that a change in the meantime does not lead out either. It must be a regular file and start with
the bytes of a picture; its name is not trusted. SVG is not served, since it may hold scripts.

*HAR files* are found in the same way, must begin as one, and are only sent to be saved.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path

from aiohttp import hdrs, web

from rollgym.viewer.documents.images import media_type_of
from rollgym.viewer.errors import RequestError
from rollgym.viewer.view import PictureData

INDEX = "index.html"
FOLDER = "static"
_NAME = re.compile(r"[a-z0-9_]+\.(html|js|css|svg)")
_TYPES = {
    "html": "text/html",
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
}


def read_static(name: str) -> bytes:
    """The bytes of a file of the page. For a thread, because it reads the disk.

    Raises RequestError.
    """
    folder = files("rollgym.viewer") / FOLDER
    if _NAME.fullmatch(name) and any(name == each.name for each in folder.iterdir()):
        return (folder / name).read_bytes()
    if name == INDEX:
        raise RequestError(
            HTTPStatus.NOT_FOUND,
            "The files of the viewer's page are missing. Install rollgym again.",
        )
    raise RequestError(HTTPStatus.NOT_FOUND, "The viewer has no file with this name.")


def static_response(request: web.Request, name: str, body: bytes) -> web.Response:
    """The response with an ETag; without a body if the browser has the file already."""
    tag = sha256(body).hexdigest()[:32]
    answer = web.Response(headers={hdrs.CACHE_CONTROL: "no-cache"})
    if any(tag == known.value for known in request.if_none_match or ()):
        answer.set_status(HTTPStatus.NOT_MODIFIED)
    else:
        answer.body = body
        answer.content_type = _TYPES[name.rpartition(".")[2]]
        answer.charset = "utf-8"
    answer.etag = tag
    return answer


LARGEST_PICTURE = 32 << 20
_HAR_BEGINNING = b'{"log":'
_STEP = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_picture(folder: Path | None, name: str) -> PictureData:
    """The picture at a path in the folder. Raises RequestError."""
    data = _read(folder, name)
    kind = media_type_of(data)
    if kind is None:
        raise RequestError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "The file is not a PNG, JPEG, GIF or WebP picture. The viewer shows no other formats.",
        )
    return PictureData(kind, data)


def read_har(folder: Path | None, name: str) -> bytes:
    """The HAR of a session at a path in the folder. Raises RequestError."""
    data = _read(folder, name)
    if not data.startswith(_HAR_BEGINNING):
        raise RequestError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "The file is not a HAR. The viewer sends no other files.",
        )
    return data


def _read(folder: Path | None, name: str) -> bytes:
    if folder is None:
        raise _missing("these rollouts have no folder of pictures")
    try:
        with _opened(folder, name) as descriptor:
            return _content(descriptor)
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle; a NUL in the name
        raise _missing("it is not in the folder of these rollouts") from error


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int]:
    """Raises OSError, RuntimeError, ValueError."""
    root = folder.resolve(strict=True)
    *folders, last = (root / name).resolve(strict=True).relative_to(root).parts or (".",)
    descriptors = [os.open(root, _STEP | os.O_DIRECTORY)]
    try:
        for part in folders:
            descriptors.append(os.open(part, _STEP | os.O_DIRECTORY, dir_fd=descriptors[-1]))
        # Without waiting: opening a pipe would wait for a writer.
        descriptors.append(os.open(last, _STEP | os.O_NONBLOCK, dir_fd=descriptors[-1]))
        yield descriptors[-1]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _content(descriptor: int) -> bytes:
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode):
        raise ValueError("not a regular file")
    if about.st_size > LARGEST_PICTURE:
        raise RequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The file has {about.st_size >> 20} MiB. The limit is {LARGEST_PICTURE >> 20} MiB.",
        )
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        return file.read(LARGEST_PICTURE)


def _missing(why: str) -> RequestError:
    return RequestError(HTTPStatus.NOT_FOUND, f"There is no such file: {why}.")
