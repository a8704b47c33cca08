"""`rollgym policy`: serve the baseline policy in the place of a model (serve).

Only what the options need is imported here, so that `rollgym --help` answers at once.
"""

import asyncio
import logging
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rollgym.cli.process import say
from webgym.policies import DEFAULT_HOST, DEFAULT_PORT, DEFAULT_SEED, MODEL_NAME, POLICY_NAME
from webgym.served import add_address_options

if TYPE_CHECKING:
    from webgym.policies.scripted import ScriptedPolicy
    from webgym.policies.server import Latency


def configure(parser: ArgumentParser) -> None:
    parser.description = (
        "A baseline for web agents, behind the HTTP interface of a model (chat completions): a "
        "program that replays recorded solutions of the test sites' tasks. It is not a model."
    )
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    serve = actions.add_parser("serve", help="serve the policy until Ctrl-C")
    serve.description = "Serve the baseline policy until Ctrl-C."
    add = serve.add_argument
    add(
        "policy",
        type=_policy_name,
        nargs="?",
        default=POLICY_NAME,
        help=f"name of the policy (there is one: {POLICY_NAME})",
    )
    add_address_options(serve, DEFAULT_HOST, DEFAULT_PORT)
    add(
        "--latency",
        type=_latency,
        metavar="KIND:SECONDS",
        help="simulated time to think: fixed:0.2, lognormal:2.0 or lognormal:MEAN:SIGMA "
        "(default: none)",
    )
    seed_help = f"random seed of --latency (default: {DEFAULT_SEED})"
    add("--seed", type=int, default=DEFAULT_SEED, help=seed_help)
    add(
        "--solutions",
        type=Path,
        metavar="FILE",
        help="recorded actions of further tasks: JSONL with task_name and actions",
    )


def run(arguments: Namespace) -> int:
    """Raises PoliciesError."""
    # Imported here rather than above, so that --help answers at once.
    from rollgym.engine import run as run_loop  # noqa: PLC0415
    from webgym.policies.scripted import ScriptedPolicy, load_recordings  # noqa: PLC0415
    from webgym.served import until_stopped  # noqa: PLC0415

    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", level=logging.INFO)
    policy = ScriptedPolicy(load_recordings(arguments.solutions))
    return run_loop(until_stopped(_serve(policy, arguments)))


async def _serve(policy: "ScriptedPolicy", arguments: Namespace) -> None:
    """Serve until cancelled. Raises PoliciesError."""
    from webgym.policies.server import PolicyServer, serving  # noqa: PLC0415

    server = PolicyServer(policy, latency=arguments.latency, seed=arguments.seed)
    async with serving(server, arguments.host, arguments.port) as url:
        say(f"Policy ready at {url}: {MODEL_NAME}, which is not a model. Ctrl-C stops it.")
        await asyncio.Event().wait()


def _policy_name(text: str) -> str:
    if text == "heuristic":
        raise ArgumentTypeError(
            f"the policy `heuristic` was removed: serve `{POLICY_NAME}`, which replays recorded "
            "solutions"
        )
    if text != POLICY_NAME:
        raise ArgumentTypeError(f"{text!r} is not a policy: give `{POLICY_NAME}`, or leave it out")
    return text


def _latency(text: str) -> "Latency":
    from webgym.policies.server import Latency  # noqa: PLC0415

    try:
        return Latency.read(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
