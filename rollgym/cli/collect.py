"""`ng_collect_rollouts`, also `rollgym collect`: a dataset in, scored rollouts out.

The servers are those of an `ng_run`, found through its head, or with `+config_paths` those of this
process. Everything that can be wrong with the command, the configuration and the input is checked
before anything is started.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rollgym.cli.collection import RunRequest, run_collection
from rollgym.cli.override_command import enter
from rollgym.cli.rollout_job import RolloutJob, announce, refuse_unsafe_output
from rollgym.cli.rollout_settings import (
    CollectSettings,
    SettingsError,
    read_settings,
    rollout_help,
)
from rollgym.cli.servers import Clients, find_servers
from rollgym.engine import Worker
from rollgym.rollouts.input_checks import agent_problem
from rollgym.rollouts.inputs import DEFAULT_REPEATS, InputSettings, PreparedInputs
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.sampling import ADD_SEED
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers.client import RecoveryWait
from rollgym.servers.config import Configuration, plugin_roots
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
command's own. The input is looked for in the working directory, then among the
examples that come with rollgym. The same command again continues where it
stopped; Ctrl-C finishes what is in flight and stops, twice stops at once.
"""


def help_text() -> str:
    return rollout_help(_USAGE, CollectSettings, EXAMPLE)


def run(arguments: Sequence[str]) -> int:
    config = Configuration(arguments, Path.cwd())
    settings = read_settings(CollectSettings, config.options(), EXAMPLE)
    servers = find_servers(config)
    paths = RolloutPaths.of(settings.output_jsonl_fpath, settings.shard or WHOLE)
    _require_known_agents(settings, servers.roster.agents)
    inputs = PreparedInputs(
        InputSettings(
            path=_found(settings.input_jsonl_fpath),
            agent_name=settings.agent_name,
            limit=settings.limit,
            num_repeats=settings.num_repeats or 1,
            params=settings.responses_create_params,
            agents=servers.roster.agents,
            seeded=settings.num_repeats_add_seed,
        )
    )
    refuse_unsafe_output(paths, settings)
    params = settings.responses_create_params
    request = RunRequest(
        directory=paths.run,
        config={
            "servers": servers.roster.identity(inputs.agents),
            # The inputs have them already; here they are for the words of a refusal.
            **({"responses_create_params": params} if params else {}),
            ADD_SEED: settings.num_repeats_add_seed,
            "success_threshold": settings.success_threshold,
        },
        seed=settings.seed,
        shard=settings.shard or WHOLE,
        reopen=settings.reopen,
        force_new_run=not settings.resume,
    )
    first_seed = settings.seed if settings.num_repeats_add_seed else None

    def make_worker(clients: Clients) -> Worker:
        return AgentWorker(
            clients,
            success_threshold=settings.success_threshold,
            first_seed=first_seed,
            patience=RecoveryWait(settings.server_patience),
        )

    announce(inputs.tasks, inputs.rollouts, paths, settings)
    job = RolloutJob(settings, paths, servers, make_worker)
    return run_collection(request, inputs, job, settings.policy)


def _require_known_agents(settings: CollectSettings, agents: Collection[str]) -> None:
    """Raises SettingsError where the command line names an agent that is none."""
    named = [("agent_name", settings.agent_name)] if settings.agent_name else []
    if isinstance(settings.num_repeats, Mapping):
        named += [("num_repeats", name) for name in settings.num_repeats if name != DEFAULT_REPEATS]
    told = [(option, agent_problem(name, agents)) for option, name in named]
    problems = [f"+{option}: {problem}" for option, problem in told if problem]
    if problems:
        raise SettingsError("\n".join(problems))


def _found(path: Path) -> Path:
    """Where the input is: like config files, here or else among what comes with rollgym."""
    try:
        if path.exists():
            return path
        places = (root / path for root in plugin_roots(Path.cwd()))
        return next((place for place in places if place.is_file()), path)
    except OSError:
        return path  # whoever opens it says what is wrong


def entry() -> NoReturn:
    """`ng_collect_rollouts`."""
    enter(help_text, run)


if __name__ == "__main__":
    entry()
