"""What the commands that run agents have in common: servers, inputs, identity and worker.

Everything that can be wrong with the command, the configuration and the input is checked here,
before anything is started.
"""

import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rollgym.cli.collection import Collecting, MakeWorker, print_notes
from rollgym.cli.options import OptionNames
from rollgym.cli.rollout_settings import AgentSettings, SettingsError
from rollgym.cluster.launchers import LocalProcesses
from rollgym.cluster.settings import worker_processes
from rollgym.engine import Worker
from rollgym.rollouts.agent_processes import MOVED, AgentPrograms, with_shared_servers
from rollgym.rollouts.input_file import agent_problem
from rollgym.rollouts.inputs import DEFAULT_REPEATS, InputSettings, PreparedInputs
from rollgym.rollouts.paths import RolloutPaths
from rollgym.rollouts.preflight import preflight
from rollgym.rollouts.prompt import PromptTemplate
from rollgym.rollouts.rows import ADD_SEED, IN_EXTRA_BODY, RepeatSeeds
from rollgym.rollouts.servers import CollectionServers, find_servers
from rollgym.rollouts.worker import AgentWorker
from rollgym.servers.client import RecoveryWait
from rollgym.servers.config.loading import Configuration
from rollgym.servers.config.plugins import plugin_roots
from rollgym.servers.launch.records import Moved
from rollgym.store import read_manifest

Repeats = int | Mapping[str, int]


class AgentCommand(NamedTuple):
    """A checked command. `config` is the part of its settings that can change results."""

    servers: CollectionServers
    inputs: PreparedInputs
    config: dict[str, Any]
    make_worker: MakeWorker


def prepare_agents(
    settings: AgentSettings,
    configuration: Configuration,
    names: OptionNames,
    num_repeats: Repeats = 1,
    local: LocalProcesses | None = None,
) -> AgentCommand:
    """Find the servers and check the inputs. Raises RefusedError, StorageError, ConfigError.

    `local` may have started worker processes already.
    """
    cluster = settings.cluster
    shared = partial(with_shared_servers, on_cluster=cluster.is_ray) if cluster else None
    servers = find_servers(configuration, shared=shared, cluster=cluster)
    _require_known_agents(settings, num_repeats, servers.agents, names)
    prompt = settings.prompt_config
    inputs = PreparedInputs(
        InputSettings(
            path=_find_file(settings.input_jsonl_fpath),
            agent_name=settings.agent_name or _only_agent(servers.agents),
            prompt=PromptTemplate.read(_find_file(prompt)) if prompt else None,
            limit=settings.limit,
            num_repeats=num_repeats,
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
            local=local,
        ) as workers:
            collecting.servers.moved = lambda urls: workers.tell(MOVED, Moved(urls).to_line())
            yield workers

    return AgentCommand(servers, inputs, config, make_worker)


def _only_agent(agents: Sequence[str]) -> str | None:
    if len(agents) != 1:
        return None
    print(f"Agent: {agents[0]} (the only one)", file=sys.stderr)
    return agents[0]


def _seeds(settings: AgentSettings) -> RepeatSeeds | None:
    """The sampling seeds of the repeats; a run of an earlier version has them where it began."""
    if not settings.num_repeats_add_seed:
        return None
    run = RolloutPaths.of(settings.output_jsonl_fpath).run
    existing = read_manifest(run) if settings.resume else None
    began = existing and RepeatSeeds.of(existing)
    return RepeatSeeds(settings.seed, in_extra_body=began.in_extra_body if began else True)


def _require_known_agents(
    settings: AgentSettings, num_repeats: Repeats, agents: Collection[str], names: OptionNames
) -> None:
    """Raises SettingsError where the command line names an agent that does not exist."""
    named = [("agent_name", settings.agent_name)] if settings.agent_name else []
    if isinstance(num_repeats, Mapping):
        named += [("num_repeats", name) for name in num_repeats if name != DEFAULT_REPEATS]
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
