"""`scripts/rollout.py`: one iteration of rollouts, from a configuration to files and metrics.

Everything that can be wrong with the command, the tasks and what the run needs is checked before
an episode starts. The same command again continues an iteration that is not finished.
"""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import DictConfig, OmegaConf

from rollgym.cli.exit_statuses import EXIT_STATUSES, INTERRUPTED
from rollgym.cli.guard import guarded
from rollgym.cli.leaving import leave
from rollgym.cli.open_files import allow_many_open_files
from rollgym.cli.streams import prepare_streams, say
from webgym.rollout.configuration import compose_config, config_names, plain_values
from webgym.rollout.mistakes import Origin
from webgym.rollout.section import MISSING, keys_of
from webgym.rollout.settings import RolloutSettings

_USAGE = """
usage: python scripts/rollout.py --config-name NAME save_path=FOLDER [KEY=VALUE …]

Roll out web tasks: an agent works on each in a real browser, and what came of it is judged. The
trajectories go to save_path. The same command again continues an iteration that is not finished;
Ctrl-C finishes what is in flight and stops, twice stops at once.

  python scripts/rollout.py --config-name rollout_train save_path=/data/exp1 data_path=/data/shared

options:
  --config-name NAME   which configuration: {names}
  --config-dir FOLDER  where to look for it first
  --cfg job            print the whole configuration, and do nothing
  -h, --help           print this
"""


def enter(directory: Path) -> NoReturn:
    """The program: its configurations are in `directory`."""
    prepare_streams()
    allow_many_open_files()
    try:
        status = guarded(lambda: main(sys.argv[1:], directory))
    except KeyboardInterrupt:
        status = INTERRUPTED
    except SystemExit as wrong_use:
        status = int(wrong_use.code or 0)
    leave(status)


def main(arguments: Sequence[str], directory: Path) -> int:
    """Run the command as it was written; the exit status. Raises RefusedError, StorageError."""
    parser = ArgumentParser("rollout.py", add_help=False, allow_abbrev=False)
    parser.add_argument("--config-name", "-cn", default="rollout")
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("--cfg", choices=("job",))
    parser.add_argument("--help", "-h", action="store_true")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_intermixed_args(arguments)
    if options.help:
        say(help_text(directory))
        return 0
    composed = compose_config(directory, options.config_name, options.overrides, options.config_dir)
    if options.cfg:
        say(OmegaConf.to_yaml(OmegaConf.create(composed.values)).rstrip())
        return 0
    return run(composed.values, composed.origin)


def run(config: Mapping[str, Any] | DictConfig, origin: Origin = lambda _: "") -> int:
    """Roll out what a configuration says, a dictionary or a node of Hydra; the exit status.

    `origin` says where a key was given, for messages. Raises RefusedError, StorageError.
    """
    values = plain_values(config) if isinstance(config, DictConfig) else config
    settings = RolloutSettings.of(values, origin)
    from webgym.rollout.job import roll_out  # noqa: PLC0415 - mistakes are told without the engine

    return roll_out(settings)


def help_text(directory: Path) -> str:
    """Every key with its default and meaning."""
    lines = [_USAGE.strip().format(names=", ".join(config_names(directory))), "", "keys:"]
    for key in keys_of(RolloutSettings):
        default = "needed" if key.default == MISSING else _written(key.default)
        lines += [f"  {key.name}={default}", f"      {key.description}"]
    return "\n".join([*lines, "", EXIT_STATUSES.strip()])


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
