"""The page itself: the files of `rollgym/viewer/static`, and no others.

A name is served only if the folder lists it and its ending is one of a page's. Files are read anew
for every request, and browsers ask every time whether theirs is the present one (`ETag`): after an
upgrade nobody runs half an old page.
"""

import re
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files

from aiohttp import hdrs, web

from rollgym.viewer.errors import PageError

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
    """The bytes of a file of the page. Raises PageError. Reads the disk: for a thread."""
    folder = files("rollgym.viewer") / FOLDER
    if _NAME.fullmatch(name) and any(name == each.name for each in folder.iterdir()):
        return (folder / name).read_bytes()
    if name == INDEX:
        raise PageError(
            HTTPStatus.NOT_FOUND, "The viewer's own page is not installed: install rollgym again."
        )
    raise PageError(HTTPStatus.NOT_FOUND, "The viewer has no file of this name.")


def static_response(request: web.Request, name: str, body: bytes) -> web.Response:
    """With a tag; without the body where the browser has this one already."""
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
