"""The images of examples: read from the source or from a data URL, and stored beside the export.

A file is named by its content, so the same screenshot is stored once, and an export that is
repeated finds its images there.
"""

import base64
import binascii
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from rollgym.export.source import BLOB, ExportError, RolloutSource
from rollgym.servers.responses import JsonObject
from rollgym.store import write_derived
from rollgym.store.errors import storage_errors

IMAGES = "images"
"""The column of the images of an example."""
_EXTENSIONS = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "image/gif": "gif"}


class ExportImage(NamedTuple):
    """An image and the name of its file."""

    name: str
    content: bytes


def read_image(source: RolloutSource, url: str) -> ExportImage:
    """The image of a data URL or of a file of the source. Raises ExportError, StorageError."""
    if url.startswith(BLOB):
        name = url.removeprefix(BLOB)
        return ExportImage(name, source.image(name))
    kind, _, text = url.removeprefix("data:").partition(",")
    media_type, *parameters = kind.split(";")
    try:
        if "base64" not in parameters:
            raise ExportError(f"an image of a rollout is not in base64: data:{kind[:60]}")
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ExportError(f"an image of a rollout is not valid base64: {error}") from error
    return ExportImage(
        f"{sha256(content).hexdigest()}.{_EXTENSIONS.get(media_type, 'bin')}", content
    )


class ImageFolder:
    """The folder `<name>_images` beside an export, made with its first image."""

    def __init__(self, source: RolloutSource, target: Path) -> None:
        self._source = source
        self._path = target.with_name(f"{target.name.partition('.')[0]}_{IMAGES}")
        self._stored: dict[str, str] = {}

    def with_paths(self, example: JsonObject) -> JsonObject:
        """The example with the paths of its images, relative to the folder of the export.

        Raises ExportError, StorageError.
        """
        if IMAGES not in example:
            return example
        return {**example, IMAGES: [self._store(url) for url in example[IMAGES]]}

    def _store(self, url: str) -> str:
        # A data URL is as long as its image, a name is not.
        known = url if url.startswith(BLOB) else sha256(url.encode()).hexdigest()
        if known not in self._stored:
            image = read_image(self._source, url)
            path = self._path / image.name
            with storage_errors(path, "storing an image"):
                is_there = path.is_file() and path.stat().st_size == len(image.content)
            if not is_there:
                write_derived(path, [image.content])
            self._stored[known] = f"{self._path.name}/{image.name}"
        return self._stored[known]
