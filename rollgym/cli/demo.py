"""`rollgym demo`: `ng_collect_rollouts` over a bundled environment, with a scripted model."""

import sys
from collections.abc import Sequence

TAKES_FLAGS = True
_MODEL = "responses_api_models/scripted_model/configs/scripted_model.yaml"
_ENVIRONMENT = "resources_servers/example_multi_step"
ARGUMENTS = (
    f"+config_paths=[{_MODEL},{_ENVIRONMENT}/configs/example_multi_step.yaml]",
    "+agent_name=example_multi_step_simple_agent",
    f"+input_jsonl_fpath={_ENVIRONMENT}/data/example.jsonl",
    "+output_jsonl_fpath=results/demo_multi_step_rollouts.jsonl",
    "+num_repeats=8",
    "+num_samples_in_parallel=4",
    "+policy_model.responses_api_models.scripted_model.latency=0.05",
)
_HELP = """
usage: rollgym demo [+OPTION=VALUE …]

Collect rollouts of a bundled environment with a scripted model that errs on
purpose: no language model and no network. It is the same as

  ng_collect_rollouts \\
    {arguments}

and takes the same options, which `ng_collect_rollouts --help` lists. The same
command again continues the run.
"""


def help_text() -> str:
    return _HELP.format(arguments=" \\\n    ".join(f'"{each}"' for each in ARGUMENTS))


def run(arguments: Sequence[str]) -> int:
    from rollgym.cli import collect  # noqa: PLC0415 - --help does not need it

    print("No language model: a scripted model that errs on purpose.", file=sys.stderr)
    return collect.run([*ARGUMENTS, *arguments])
