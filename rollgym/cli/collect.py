"""`ng_collect_rollouts`, also `rollgym collect`: a dataset in, scored rollouts out.

The servers are those of an `ng_run`, found through its head, or with `+config_paths` those of this
process. Everything that can be wrong with the command, the configuration and the input is checked
before anything is started.
"""

from collections.abc import Sequence
from typing import NoReturn

from rollgym.cli.agent_command import prepare_agents
from rollgym.cli.collection import run_collection
from rollgym.cli.flags import model_help
from rollgym.cli.found_configs import read_command
from rollgym.cli.options import rollout_help
from rollgym.cli.process import run_override_command
from rollgym.cli.rollout_settings import CollectSettings
from rollgym.cli.summary import ResumeOptions
from rollgym.cluster.launchers import LocalProcesses
from rollgym.cluster.ray_metrics import RayMetrics

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

With --command, the agent is your own program, unchanged:

  rollgym collect --command "python my_agent.py" --resources-server mcqa \\
    --input tasks.jsonl --output out.jsonl --model-url … --model …

The JSON block of numbers goes to standard output. So does the rest of the
summary on a terminal; otherwise it goes to standard error.
"""


def help_text() -> str:
    return rollout_help(_USAGE, CollectSettings, EXAMPLE, model_help())


def run(arguments: Sequence[str]) -> int:
    settings, configuration, names = read_command(CollectSettings, arguments, EXAMPLE, FLAG_EXAMPLE)
    cluster = settings.cluster
    early = cluster.early if cluster and not settings.dry_run else 0
    with LocalProcesses.early(early) as local:
        command = prepare_agents(settings, configuration, names, settings.num_repeats or 1, local)
        return run_collection(
            command.inputs,
            settings,
            command.servers,
            command.config,
            command.make_worker,
            options=ResumeOptions.of(names),
            observed_by=[RayMetrics()] if cluster and cluster.is_ray else [],
        )


def entry() -> NoReturn:
    """`ng_collect_rollouts`."""
    run_override_command(help_text, run, takes_flags=TAKES_FLAGS)


if __name__ == "__main__":
    entry()
