"""`rollgym reverify`: score stored rollouts again, without calling the model.

For a verifier that was mended, or another one. It is a collection like any other: retried, resumed,
and counted, with the verifier as the only one at work.
"""

from collections.abc import Sequence
from pathlib import Path

from rollgym.cli.collection import RunRequest, run_collection
from rollgym.cli.rollout_job import RolloutJob, announce, refuse_unsafe_output
from rollgym.cli.rollout_settings import ReverifySettings, read_settings, rollout_help
from rollgym.cli.servers import Clients, find_servers
from rollgym.engine import Worker
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.reverify_worker import ReverifyWorker
from rollgym.rollouts.stored import StoredTasks
from rollgym.servers.config import Configuration
from rollgym.store import WHOLE

EXAMPLE = (
    "rollgym reverify +input_jsonl_fpath=results/example_multi_step_rollouts.jsonl "
    "+output_jsonl_fpath=results/verified_again.jsonl"
)


_USAGE = """
usage: rollgym reverify +input_jsonl_fpath=FILE +output_jsonl_fpath=FILE [+OPTION=VALUE …]

Verify stored rollouts again, without calling the model: every rollout of a
JSONL file that ng_collect_rollouts wrote goes to its environment's verifier.
The new rewards go to another file.
"""


def help_text() -> str:
    return rollout_help(_USAGE, ReverifySettings, EXAMPLE)


def run(arguments: Sequence[str]) -> int:
    config = Configuration(arguments, Path.cwd())
    options = config.options()
    settings = read_settings(ReverifySettings, options, EXAMPLE)
    servers = find_servers(config)
    paths = RolloutPaths.of(settings.output_jsonl_fpath, settings.shard or WHOLE)
    stored = StoredTasks(settings.input_jsonl_fpath, settings.limit, servers.roster.agents)
    refuse_unsafe_output(paths, settings)
    request = RunRequest(
        directory=paths.run,
        config={
            "servers": servers.roster.identity(stored.agents),
            "success_threshold": settings.success_threshold,
            "replay_tools": settings.replay_tools,
        },
        seed=settings.seed,
        shard=settings.shard or WHOLE,
        reopen=settings.reopen,
        force_new_run=not settings.resume,
    )

    def make_worker(clients: Clients) -> Worker:
        return ReverifyWorker(
            clients,
            servers.roster,
            success_threshold=settings.success_threshold,
            replay_tools=settings.replay_tools,
        )

    announce(stored.tasks, stored.rollouts, paths, settings)
    job = RolloutJob(settings, paths, servers, make_worker)
    return run_collection(request, stored, job, settings.policy)
