"""`rollgym reverify`: score stored rollouts again, without calling the model.

For a verifier that was corrected, or for another one, and for rollouts that failed for want of a
verdict. It is a collection like any other: retried, resumed and counted, with the verifier as its
only work.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from rollgym.cli.collection import Collecting, run_collection
from rollgym.cli.found_configs import read_command
from rollgym.cli.options import rollout_help
from rollgym.cli.rollout_settings import ReverifySettings
from rollgym.cli.summary import ResumeOptions, format_count
from rollgym.engine import Worker
from rollgym.rollouts.reverify_worker import ReverifyWorker
from rollgym.rollouts.servers import find_servers
from rollgym.rollouts.stored_rollouts import StoredRollouts

TAKES_FLAGS = True
EXAMPLE = (
    "rollgym reverify +input_jsonl_fpath=results/example_multi_step_rollouts.jsonl "
    "+output_jsonl_fpath=results/verified_again.jsonl"
)
_USAGE = """
usage: rollgym reverify +input_jsonl_fpath=FILE +output_jsonl_fpath=FILE [+OPTION=VALUE …]
       rollgym reverify --input FILE --output FILE [--OPTION VALUE …]

Verify stored rollouts again, without calling the model: every rollout of a
JSONL file that ng_collect_rollouts wrote is sent to the verifier of its
environment. The new rewards go to another file. Failed rollouts whose response
is finished and only lacks a verdict are included; give the file of failures
(x_failures.jsonl) to verify only these.
"""


def help_text() -> str:
    return rollout_help(_USAGE, ReverifySettings, EXAMPLE)


def run(arguments: Sequence[str]) -> int:
    settings, configuration, names = read_command(ReverifySettings, arguments, EXAMPLE)
    servers = find_servers(configuration)
    stored = StoredRollouts(settings.input_jsonl_fpath, settings.limit, servers.agents)
    if stored.unverified:
        failed = format_count(stored.unverified, "failed rollout")
        print(f"including {failed} without a verdict", file=sys.stderr)
    config = {
        "servers": servers.identity(stored.agents),
        "stored_rollouts": stored.sha256,
        "success_threshold": settings.success_threshold,
        "replay_tools": settings.replay_tools,
    }

    options = ResumeOptions.of(names)

    @asynccontextmanager
    async def make_worker(collecting: Collecting) -> AsyncIterator[Worker]:
        yield ReverifyWorker(
            collecting.servers.client,
            servers,
            stored,
            success_threshold=settings.success_threshold,
            replay_tools=settings.replay_tools,
        )

    return run_collection(stored, settings, servers, config, make_worker, options=options)
