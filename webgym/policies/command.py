"""`rollgym policy`: serve a baseline policy in the place of a model (serve).

Only what the options need is imported here, so that `rollgym --help` answers at once.
"""

import asyncio
import logging
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rollgym.cli.streams import say
from webgym.policies.names import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_SEED, MODEL_NAMES, PolicyName

if TYPE_CHECKING:
    from webgym.policies.latency import Latency
    from webgym.policies.policy import Policy

HIGHEST_PORT = 65_535


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "Baselines for web agents, behind the HTTP interface of a model (chat completions): "
        "`heuristic` matches the words of the task to the page, `scripted` plays recorded actions. "
        "Neither is a model."
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    serve = actions.add_parser("serve", help="serve a policy until Ctrl-C")
    serve.description = "Serve a baseline policy until Ctrl-C."
    add = serve.add_argument
    add("policy", choices=tuple(MODEL_NAMES), help="which one")
    add("--host", default=DEFAULT_HOST, help=f"where to listen (default: {DEFAULT_HOST})")
    usual = f"(default: {DEFAULT_PORT}; 0: any that is free)"
    add("--port", type=_port, default=DEFAULT_PORT, help=usual)
    add(
        "--latency",
        type=_latency,
        metavar="KIND:SECONDS",
        help="pretend to think: fixed:0.2, lognormal:2.0 or lognormal:MEAN:SIGMA (default: none)",
    )
    add("--seed", type=int, default=DEFAULT_SEED, help=f"(default: {DEFAULT_SEED})")
    add(
        "--solutions",
        type=Path,
        metavar="FILE",
        help="of scripted: recorded actions of further tasks, JSONL with task_name and actions",
    )


def run(arguments: Namespace) -> int:
    """Raises PoliciesError."""
    # Here rather than above, so that --help answers at once.
    from rollgym.engine import run as run_loop  # noqa: PLC0415
    from webgym.browser.serve import until_stopped  # noqa: PLC0415

    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    policy = _policy(arguments.policy, arguments.seed, arguments.solutions)
    return run_loop(until_stopped(_keep_up(policy, arguments)))


async def _keep_up(policy: "Policy", arguments: Namespace) -> None:
    """Serve until this is cancelled. Raises PoliciesError."""
    from webgym.policies.server import PolicyServer, serving  # noqa: PLC0415

    model = MODEL_NAMES[arguments.policy]
    server = PolicyServer(policy, model, latency=arguments.latency, seed=arguments.seed)
    async with serving(server, arguments.host, arguments.port) as url:
        say(f"Policy ready at {url}: {model}, which is no model; Ctrl-C stops it")
        await asyncio.Event().wait()


def _policy(name: PolicyName, seed: int, solutions: Path | None) -> "Policy":
    from webgym.policies.errors import PoliciesError  # noqa: PLC0415

    if name == "scripted":
        from webgym.policies.scripted import ScriptedPolicy, load_recordings  # noqa: PLC0415

        return ScriptedPolicy(load_recordings(solutions))
    if solutions is not None:
        raise PoliciesError("--solutions is for the policy `scripted`: leave it out")
    from webgym.policies.heuristic import HeuristicPolicy  # noqa: PLC0415

    return HeuristicPolicy(seed)


def _latency(text: str) -> "Latency":
    from webgym.policies.latency import Latency  # noqa: PLC0415

    try:
        return Latency.read(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) > HIGHEST_PORT:
        raise ArgumentTypeError(f"{text!r} is no port: give a number from 0 to {HIGHEST_PORT}")
    return int(text)
