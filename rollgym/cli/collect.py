"""`ng_collect_rollouts`, also `rollgym collect`: a dataset in, scored rollouts out.

The servers are those of an `ng_run`, found through its head, or with `+config_paths` those of this
process. Everything that can be wrong with the command, the configuration and the input is checked
before anything is started.
"""

import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

from rollgym.cli.collection import Collecting, print_notes, run_collection
from rollgym.cli.flags import model_help, read_flags
from rollgym.cli.found_configs import find_configuration
from rollgym.cli.process import run_override_command
from rollgym.cli.rollout_settings import (
    CollectSettings,
    OptionNames,
    SettingsError,
    read_settings,
    rollout_help,
)
from rollgym.cli.summary import ResumeOptions
from rollgym.cluster.ray_metrics import RayMetrics
from rollgym.cluster.settings import worker_processes
from rollgym.engine import Worker
from rollgym.rollouts.agent_processes import MOVED, AgentPrograms, with_shared_servers
from rollgym.rollouts.input_file import agent_problem
from rollgym.rollouts.inputs import DEFAULT_REPEATS, InputSettings, PreparedInputs
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.preflight import preflight
from rollgym.rollouts.prompt import PromptTemplate
from rollgym.rollouts.rows import ADD_SEED, IN_EXTRA_BODY, RepeatSeeds
from rollgym.rollouts.servers import find_servers
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers.client import RecoveryWait
from rollgym.servers.config.plugins import plugin_roots
from rollgym.servers.launch.records import Moved
from rollgym.store import read_manifest

TAKES_FLAGS = True
EXAMPLE = (
    "ng_collect_rollouts +agent_name=example_multi_step_simple_agent "
    "+input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl "
    "+output_jsonl_fpath=results/example_multi_step_rollouts.jsonl"
)
FLAG_EXAMPLE = (
    "rollgym collect --agent example_multi_step_simple_agent "
    "--input resources_servers/example_multi_step/data/example.jsonl "
    "--output results/example_multi_step_rollouts.jsonl"
)
_USAGE = """
usage: ng_collect_rollouts +input_jsonl_fpath=FILE +output_jsonl_fpath=FILE [+OPTION=VALUE …]
       rollgym collect --input FILE --output FILE [--OPTION VALUE …] [+OPTION=VALUE …]

Collect rollouts: an agent works on every row of a JSONL file, and its
environment scores the result. The servers are those of an ng_run, or with
config files this command's own. The input is looked for in the working
directory, then among the examples that come with rollgym. Ctrl-C finishes the
running rollouts and stops; a second Ctrl-C stops at once. The same command
again continues the run.

Each option is a flag, --limit 4, or an override, +limit=4. With a flag about
the model, the command runs the servers itself, and finds the config file of the
agent:

  rollgym collect --agent mcqa_simple_agent --input tasks.jsonl --output out.jsonl \\
    --model-url http://127.0.0.1:8000/v1 --model Qwen/Qwen3-8B

With --command, the agent is a program of yours, which needs no change:

  rollgym collect --command "python my_agent.py" --resources-server mcqa \\
    --input tasks.jsonl --output out.jsonl --model-url … --model …

The JSON block of numbers goes to standard output. So does the rest of the
summary on a terminal; otherwise it goes to standard error.
"""


def help_text() -> str:
    return rollout_help(_USAGE, CollectSettings, EXAMPLE, model_help())


def run(arguments: Sequence[str]) -> int:
    flags = read_flags(CollectSettings, arguments)
    names, example = flags.names(CollectSettings), FLAG_EXAMPLE if flags.used else EXAMPLE
    configuration = find_configuration(flags, Path.cwd())
    settings = read_settings(CollectSettings, configuration.options(), example, names)
    cluster = settings.cluster
    shared = partial(with_shared_servers, on_cluster=cluster.is_ray) if cluster else None
    servers = find_servers(configuration, shared=shared, cluster=cluster)
    _require_known_agents(settings, servers.agents, names)
    prompt = settings.prompt_config
    inputs = PreparedInputs(
        InputSettings(
            path=_find_file(settings.input_jsonl_fpath),
            agent_name=settings.agent_name or _only_agent(servers.agents),
            prompt=PromptTemplate.read(_find_file(prompt)) if prompt else None,
            limit=settings.limit,
            num_repeats=settings.num_repeats or 1,
            params=settings.responses_create_params,
            agents=servers.agents,
            seeded=settings.num_repeats_add_seed,
        )
    )
    params, seeds = settings.responses_create_params, _seeds(settings)
    config = {
        "servers": servers.identity(inputs.agents),
        # The inputs have them already; here they are for the message about a difference.
        **({"responses_create_params": params} if params else {}),
        ADD_SEED: seeds is not None and (IN_EXTRA_BODY if seeds.in_extra_body else True),
        "success_threshold": settings.success_threshold,
    }

    options = ResumeOptions.of(names)

    @asynccontextmanager
    async def make_worker(collecting: Collecting) -> AsyncIterator[Worker]:
        recovery, clients = RecoveryWait(settings.server_patience), collecting.servers.client
        if settings.preflight:
            print_notes(
                await preflight(servers, clients, inputs.agents, collecting.store, recovery)
            )
        if cluster is None:
            yield AgentWorker(
                clients,
                success_threshold=settings.success_threshold,
                seeds=seeds,
                recovery=recovery,
            )
            return
        programs = AgentPrograms(
            servers,
            collecting.servers,
            success_threshold=settings.success_threshold,
            seeds=seeds,
            patience=settings.server_patience,
        )
        async with worker_processes(
            cluster,
            programs.of,
            collecting.stop.give_up,
            limit=programs.process_limit,
            report=lambda note: print_notes([note]),
        ) as workers:
            collecting.servers.moved = lambda urls: workers.tell(MOVED, Moved(urls).to_line())
            yield workers

    return run_collection(
        inputs,
        settings,
        servers,
        config,
        make_worker,
        options=options,
        observed_by=[RayMetrics()] if cluster and cluster.is_ray else [],
    )


def _only_agent(agents: Sequence[str]) -> str | None:
    if len(agents) != 1:
        return None
    print(f"Agent: {agents[0]} (the only one)", file=sys.stderr)
    return agents[0]


def _seeds(settings: CollectSettings) -> RepeatSeeds | None:
    """The sampling seeds of the repeats; a run of an earlier version has them where it began."""
    if not settings.num_repeats_add_seed:
        return None
    run = RolloutPaths.of(settings.output_jsonl_fpath).run
    existing = read_manifest(run) if settings.resume else None
    began = existing and RepeatSeeds.of(existing)
    return RepeatSeeds(settings.seed, in_extra_body=began.in_extra_body if began else True)


def _require_known_agents(
    settings: CollectSettings, agents: Collection[str], names: OptionNames
) -> None:
    """Raises SettingsError where the command line names an agent that does not exist."""
    named = [("agent_name", settings.agent_name)] if settings.agent_name else []
    if isinstance(settings.num_repeats, Mapping):
        named += [("num_repeats", name) for name in settings.num_repeats if name != DEFAULT_REPEATS]
    checked = [(option, agent_problem(name, agents)) for option, name in named]
    problems = [f"{names.of(option)}: {problem}" for option, problem in checked if problem]
    if problems:
        raise SettingsError("\n".join(problems))


def _find_file(path: Path) -> Path:
    """A file of the user: like config files, here or else among those that come with rollgym."""
    try:
        if path.exists():
            return path
        places = (root / path for root in plugin_roots(Path.cwd()))
        return next((place for place in places if place.is_file()), path)
    except OSError:
        return path  # opening it gives the error message


def entry() -> NoReturn:
    """`ng_collect_rollouts`."""
    run_override_command(help_text, run, takes_flags=TAKES_FLAGS)


if __name__ == "__main__":
    entry()
