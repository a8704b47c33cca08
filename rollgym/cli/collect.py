"""`ng_collect_rollouts`, also `rollgym collect`: a dataset in, scored rollouts out.

The servers are those of an `ng_run`, found through its head, or with `+config_paths` those of this
process. Everything that can be wrong with the command, the configuration and the input is checked,
and told together, before anything is started.
"""

from collections.abc import Sequence
from typing import NoReturn

from rollgym.cli.collection import RunRequest, run_collection
from rollgym.cli.override_command import enter
from rollgym.cli.rollout_job import RolloutJob, announce, refuse_unsafe_output
from rollgym.cli.rollout_settings import CollectSettings, read_settings, rollout_help
from rollgym.cli.servers import Clients, find_servers
from rollgym.engine import Worker
from rollgym.rollouts.inputs import InputSettings, PreparedInputs
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.patience import Patience
from rollgym.rollouts.roster import IRRELEVANT_SETTINGS
from rollgym.rollouts.worker import AgentWorker
from rollgym.store import WHOLE

EXAMPLE = (
    "ng_collect_rollouts +agent_name=example_multi_step_simple_agent "
    "+input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl "
    "+output_jsonl_fpath=results/example_multi_step_rollouts.jsonl"
)


_USAGE = """
usage: ng_collect_rollouts +input_jsonl_fpath=FILE +output_jsonl_fpath=FILE [+OPTION=VALUE …]

Collect rollouts: every row of a JSONL file, worked on by an agent, scored by
its environment. The servers are those of an ng_run, or with +config_paths this
command's own. The same command again continues where it stopped; Ctrl-C
finishes what is in flight and stops, twice stops at once.
"""


def help_text() -> str:
    return rollout_help(_USAGE, CollectSettings, EXAMPLE)


def run(arguments: Sequence[str]) -> int:
    servers = find_servers(arguments)
    settings = read_settings(CollectSettings, servers.options, EXAMPLE)
    paths = RolloutPaths.of(settings.output_jsonl_fpath, settings.shard or WHOLE)
    inputs = PreparedInputs(
        InputSettings(
            path=settings.input_jsonl_fpath,
            agent_name=settings.agent_name,
            limit=settings.limit,
            num_repeats=settings.num_repeats or 1,
            params=settings.responses_create_params,
            agents=servers.roster.agents,
        )
    )
    refuse_unsafe_output(paths, settings)
    request = RunRequest(
        directory=paths.run,
        config={
            "servers": servers.roster.identity(inputs.agents),
            "num_repeats_add_seed": settings.num_repeats_add_seed,
            "success_threshold": settings.success_threshold,
        },
        irrelevant=IRRELEVANT_SETTINGS,
        seed=settings.seed,
        shard=settings.shard or WHOLE,
        reopen=settings.reopen,
        force_new_run=not settings.resume,
    )
    sampling_seed = settings.seed if settings.num_repeats_add_seed else None

    def make_worker(clients: Clients) -> Worker:
        return AgentWorker(
            clients,
            success_threshold=settings.success_threshold,
            sampling_seed=sampling_seed,
            patience=Patience(settings.server_patience),
        )

    announce(inputs.tasks, inputs.rollouts, paths, settings)
    job = RolloutJob(settings, paths, servers, make_worker, sampling_seed=sampling_seed)
    return run_collection(request, inputs, job, settings.policy)


def entry() -> NoReturn:
    """`ng_collect_rollouts`."""
    enter(help_text, run)


if __name__ == "__main__":
    entry()
