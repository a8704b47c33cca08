"""`rollgym rollout`: roll out web tasks, from a configuration to trajectories and metrics.

`scripts/rollout.py` is the same program. It runs through `hydra.main`, so Hydra's own options work,
without Hydra's working directories and log files. The command, the tasks and the servers are
checked before an episode starts. The same command continues an unfinished iteration.

*Overrides.* `webgym.rollout.configuration` composes the configuration, with messages for mistyped
keys. Hydra gets the same overrides in the form that it accepts, and expands those with several
values (`--multirun`) into jobs, which run one after another.
"""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from hydra import main as hydra_main
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from rollgym.cli.process import EXIT_STATUSES, INTERRUPTED, end_process, exit_status_of, say_error
from webgym.rollout.configuration import (
    HYDRA_VERSION,
    compose_config,
    config_folders,
    config_names,
    hydra_lines,
    in_a_line,
    plain_values,
    read_overrides,
    search_override,
)
from webgym.rollout.settings import WebRolloutSettings
from webgym.settings import MISSING, KeyOrigin, WebSettingsError, keys_of

_USAGE = """
usage: rollgym rollout --config-name NAME save_path=FOLDER [KEY=VALUE …]
       python scripts/rollout.py … (in a clone)

Roll out web tasks: an agent works on each task in a real browser, and a judge or the task's own
check scores the result. The trajectories are written to save_path. The same command continues an
unfinished iteration. Ctrl-C stops after the running rollouts; a second Ctrl-C stops at once.

  rollgym rollout --config-name rollout_train save_path=/data/exp1 data_path=/data/shared

options:
  --config-name NAME   name of the configuration: {names}
  --config-dir FOLDER  folder that is searched first
  --config-path FOLDER the same; a relative path begins at the script
  --multirun           run a job for each combination of values: policy_config.temperature=0.5,1
  --cfg job|hydra|all  print the configuration and exit (--package KEY: a part of it,
                       --resolve: with interpolations resolved)
  --info               print how the configuration was found and composed, and exit
  --hydra-help         print Hydra's own help and exit
  -h, --help           print this help and exit
"""
_QUIET = (
    "hydra.job.name=rollout",
    "hydra.output_subdir=null",
    "hydra.run.dir=.",
    "hydra/job_logging=none",
    "hydra/help=rollgym_rollout",
)
"""Hydra makes no folders and no log files, and shows our help."""
_HYDRA_LOG = ("hydra/hydra_logging=none",)
_SWEEP_LOG = ("hydra.hydra_logging.handlers.console.stream='ext://sys.stderr'",)
"""Standard output is for the numbers of each job."""


def enter(directory: Path) -> NoReturn:
    """Run the program; its configurations are in `directory`."""
    end_process(lambda: exit_status_of(lambda: main(sys.argv[1:], directory)))


def run_arguments(arguments: Sequence[str]) -> int:
    """`rollgym rollout`. Raises RefusedError, StorageError."""
    return main(arguments, config_directory())


def config_directory() -> Path:
    """The folder of the bundled configurations, in an installation or in a clone."""
    installed = Path(__file__).parent / "config"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "scripts" / "config"


def main(arguments: Sequence[str], directory: Path) -> int:
    """Run the command; the exit status. Raises RefusedError, StorageError."""
    parser = get_args_parser()
    parser.prog, parser.allow_abbrev = "rollout", False
    options = parser.parse_intermixed_args(arguments)
    _require_one_mode(parser, options)
    name = options.config_name or "rollout"
    own = [
        *([_found_folder(options.config_path, directory)] if options.config_path else ()),
        *([Path(options.config_dir)] if options.config_dir else ()),
    ]
    folders = config_folders(directory, name, *own)
    overrides = read_overrides(options.overrides, sweeps=options.multirun)
    # Hydra cannot remove a key whose value is null.
    is_run = options.multirun or not _mode_flags(options)
    removed = [each for each in overrides if each.is_delete() and is_run]
    removals = [str(each.input_line) for each in removed]
    lines = hydra_lines([each for each in overrides if each not in removed], folders)
    jobs = _Jobs(
        lambda given: _run_composed(directory, name, [*given, *removals], own),
        is_single=not options.multirun,
    )
    _store_help(directory)
    quiet = (*_QUIET, *(_SWEEP_LOG if options.multirun else _HYDRA_LOG))
    place = [f"--config-path={folders[0]}", f"--config-name={name}", *_mode_flags(options)]
    arguments = [*place, *quiet, *search_override(folders[1:]), *lines]
    try:
        with _as_command_line(arguments):
            hydra_main(version_base=HYDRA_VERSION, config_path=None, config_name=name)(jobs.task)()
    except SystemExit as ended:
        return int(ended.code or 0)
    except (HydraException, OmegaConfBaseException, RecursionError) as error:
        plain = [str(each.input_line) for each in overrides if not each.is_sweep_override()]
        compose_config(directory, name, plain, *own)  # raises with a better message
        raise WebSettingsError(f"config {name!r}: {in_a_line(error)}") from error
    return jobs.status


class _Jobs:
    """The jobs of a command: one, or those of a sweep, which go on after a failed one."""

    def __init__(self, run_job: Callable[[list[str]], int], *, is_single: bool) -> None:
        self._run_job = run_job
        self._is_single = is_single
        self._statuses: list[int] = []
        self._error: BaseException | None = None

    def task(self, _: DictConfig) -> int:
        """Run one job with the overrides that Hydra has for it."""
        overrides = list(HydraConfig.get().overrides.task)
        if INTERRUPTED in self._statuses:
            say_error(f"not run after an interruption: {' '.join(overrides)}")
            return INTERRUPTED
        try:
            if self._is_single:
                self._statuses.append(self._run_job(overrides))
            else:
                self._statuses.append(exit_status_of(lambda: self._run_job(overrides)))
        except BaseException as error:  # noqa: BLE001 - Hydra would print it and exit
            self._error = error
        return self._statuses[-1] if self._statuses else 0

    @property
    def status(self) -> int:
        """The exit status of the first job that did not complete; 0 where all did."""
        if self._error is not None:
            raise self._error
        return next(filter(None, self._statuses), 0)


def _run_composed(directory: Path, name: str, overrides: Sequence[str], own: Sequence[Path]) -> int:
    composed = compose_config(directory, name, overrides, *own)
    return run(composed.values, composed.origin)


def _require_one_mode(parser: ArgumentParser, options: Namespace) -> None:
    """Exit with 2 for options that exclude each other, where Hydra would show a traceback."""
    modes = (options.run, options.multirun, options.cfg, options.info, options.shell_completion)
    if sum(map(bool, modes)) > 1:
        parser.error("give only one of --run, --multirun, --cfg, --info and --shell-completion")
    if options.resolve and not (options.cfg or options.help):
        parser.error("--resolve needs --cfg or --help")


def _mode_flags(options: Namespace) -> list[str]:
    """The options of Hydra that say what it does, as they were given."""
    named = ("help", "hydra_help", "resolve", "multirun", "shell_completion")
    flags = [f"--{name.replace('_', '-')}" for name in named if getattr(options, name)]
    valued = {name: getattr(options, name) for name in ("cfg", "package", "info")}
    return flags + [f"--{name}={value}" for name, value in valued.items() if value]


def _found_folder(written: str, directory: Path) -> Path:
    """The folder of `--config-path`: absolute, or relative to the script or the working folder."""
    beside = directory.parent / written
    return beside if beside.is_dir() else Path(written)


def _store_help(directory: Path) -> None:
    template = help_text(directory).replace("$", "$$")
    node = {"app_name": "rollgym rollout", "header": "", "footer": "", "template": template}
    ConfigStore.instance().store(group="hydra/help", name="rollgym_rollout", node=node)


@contextmanager
def _as_command_line(arguments: Sequence[str]) -> Iterator[None]:
    """Let `hydra.main` read these arguments, and raise its errors instead of printing them."""
    variable = "HYDRA_FULL_ERROR"
    before, errors = sys.argv, os.environ.get(variable)
    sys.argv, os.environ[variable] = [before[0], *arguments], "1"
    try:
        yield
    finally:
        sys.argv = before
        if errors is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = errors


def run(config: Mapping[str, Any] | DictConfig, origin: KeyOrigin = lambda _: "") -> int:
    """Run a configuration, a dictionary or a Hydra node; the exit status.

    `origin` says where a key was set, for messages. Raises RefusedError, StorageError.
    """
    values = plain_values(config) if isinstance(config, DictConfig) else config
    settings = WebRolloutSettings.of(values, origin)
    from webgym.rollout.job import roll_out  # noqa: PLC0415 - problems are reported before heavy imports

    return roll_out(settings)


def help_text(directory: Path) -> str:
    """The help: every key with its default and description."""
    usage = _USAGE.strip().format(names=", ".join(config_names(directory)))
    lines = [usage, "", "keys:"]
    for key in keys_of(WebRolloutSettings):
        value = "needed" if key.default == MISSING else key.default
        default = value if isinstance(value, str) else json.dumps(value)
        lines += [f"  {key.name}={default}", f"      {key.description}"]
    return "\n".join([*lines, "", EXIT_STATUSES.strip()])
