"""`rollgym gateway`: a base URL and a key for every rollout of an agent that you run yourself."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from rollgym.cli.process import INTERRUPTED, exit_now, port_number, say

DEFAULT_PORT = 8700
_SESSIONS = 1000


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Serve OpenAI Responses, OpenAI Chat Completions and Anthropic Messages in front of a "
        "model, until Ctrl-C. Each session has a URL and a key of its own, and keeps the calls "
        "that an agent makes there, with their tokens. Sessions are opened, read and ended over "
        "HTTP. `rollgym collect --command` does all of this itself."
    )
    add = parser.add_argument
    add("--model-url", metavar="URL", help="address of the model, ending in /v1")
    add("--model", "-m", metavar="NAME", help="name of the model")
    add("--api-key-env", metavar="NAME", help="environment variable that has the model's key")
    add("--model-type", metavar="NAME", help="model server: openai_model, vllm_model or another")
    add(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="config file of the model server, instead of these; can be given several times",
    )
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    port_help = f"port to listen on (default: {DEFAULT_PORT}; 0: any free port)"
    add("--port", type=port_number, default=DEFAULT_PORT, help=port_help)
    add("--url", help="URL of the gateway for agents, where it differs from host and port")
    add(
        "--token-env",
        metavar="NAME",
        help="environment variable with the token for opening sessions, needed beyond loopback",
    )
    most_help = f"largest number of open sessions (default: {_SESSIONS})"
    add("--max-sessions", type=int, default=_SESSIONS, metavar="N", help=most_help)
    overrides_help = "setting of the model server, as for `rollgym run`"
    add("overrides", nargs="*", metavar="+OPTION=VALUE", help=overrides_help)


def run(arguments: Namespace) -> int:
    """Raises RefusedError."""
    from rollgym.engine import run as run_loop  # noqa: PLC0415 - --help answers at once

    return run_loop(_serve(arguments))


async def _serve(arguments: Namespace) -> int:
    """Serve until a signal. Raises RefusedError."""
    import asyncio  # noqa: PLC0415

    from rollgym.cli.found_configs import model_configuration  # noqa: PLC0415
    from rollgym.cli.listening import listening_errors, listening_token  # noqa: PLC0415
    from rollgym.cli.rollout_settings import SettingsError  # noqa: PLC0415
    from rollgym.engine import done_before, stopping_on_signals  # noqa: PLC0415
    from rollgym.servers.config.instances import is_http_url  # noqa: PLC0415
    from rollgym.servers.gateway.open_sessions import OpenGateway  # noqa: PLC0415
    from rollgym.servers.launch.fleet import started_in_process  # noqa: PLC0415

    if arguments.url is not None and not is_http_url(arguments.url):
        raise SettingsError(f"--url: {arguments.url!r} is not an http:// or https:// URL")
    if arguments.max_sessions < 1:
        raise SettingsError(f"--max-sessions: {arguments.max_sessions} is less than 1")
    token = listening_token(arguments.host, arguments.token_env)
    config, model = model_configuration(
        arguments.config,
        url=arguments.model_url,
        name=arguments.model,
        key_variable=arguments.api_key_env,
        implementation=arguments.model_type,
        cwd=Path.cwd(),
        further=arguments.overrides,
    )
    stop = asyncio.Event()
    with stopping_on_signals(stop.set, lambda: exit_now(INTERRUPTED)):
        async with started_in_process(config) as servers:
            gateway = OpenGateway(
                servers.client(model),
                arguments.host,
                arguments.port,
                url=arguments.url,
                token=token,
                most_sessions=arguments.max_sessions,
            )
            with listening_errors("the gateway", arguments.host, arguments.port):
                await gateway.start()
            async with gateway:
                say(f"The gateway is ready at {gateway.url} until Ctrl-C")
                await done_before(stop, servers.until_lost())
    return 0
