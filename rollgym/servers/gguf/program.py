"""What the process of a model runs: llama.cpp's own HTTP server, started by `serve`.

The server runs in threads of llama.cpp, so `serve` returns as soon as the model is loaded, and the
model is served until the process ends. It listens on the loopback address only, knows no other
routes than those of the model, and lets no page of a browser use it.
"""

from importlib import import_module
from typing import Any

import msgspec

HOST = "127.0.0.1"
PROMPT_CACHE_MIB = 512
"""Memory for the state of earlier prompts, which saves reading them again."""
_WARNINGS = 2
_servers: list[Any] = []


class GgufSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a GGUF file is served.

    - `weights`: path of the file; `name`: the model's name in the API.
    - `template`: text of a chat template in place of the file's own.
    - `threads`: of processor; `slots`: requests that are answered at the same time; `context`:
      tokens of one request and its answer.
    - `gpu_layers`: layers on a GPU, with a build of xllamacpp that has one; -1: llama.cpp decides.
    - `port`: 0 is any free port. `key` must come with every request, if there is one.
    """

    weights: str
    name: str
    template: str | None = None
    threads: int = 1
    slots: int = 4
    context: int = 4096
    gpu_layers: int = -1
    port: int = 0
    key: str | None = None


def serve(given: dict[str, Any]) -> str:
    """Serve a model with these `GgufSettings`; returns the URL when it is ready.

    Raises what xllamacpp raises: RuntimeError where the file cannot be loaded.
    """
    xllamacpp = import_module("xllamacpp")  # 100 MB, for this process only
    settings = msgspec.convert(given, GgufSettings)
    params = xllamacpp.CommonParams()
    params.model.path = settings.weights
    params.model_alias = {settings.name}
    if settings.template is not None:
        params.chat_template = settings.template
    params.use_jinja = True
    # More threads than free processors make llama.cpp wait for itself at every step.
    params.cpuparams.n_threads = settings.threads
    params.cpuparams_batch.n_threads = settings.threads
    params.n_parallel = settings.slots
    params.n_ctx = settings.context * settings.slots
    params.n_gpu_layers = settings.gpu_layers
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.hostnames = [HOST]
    params.port = settings.port
    params.api_keys = [settings.key] if settings.key else []
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = _WARNINGS
    server = xllamacpp.Server(params)
    _servers.append(server)  # it ends when it is collected as garbage
    return str(server.listening_address)
