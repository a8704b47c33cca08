"""The part of a run that a process has by the variables that SLURM sets for it.

A job array is divided by its tasks; where `srun` starts several processes in each of them, or in a
job without an array, also by those. So one `+shard=slurm` serves both.
"""

import os
from collections.abc import Mapping

from rollgym.store import Shard

_ARRAY = "SLURM_ARRAY_TASK_"
_FEWER = "give +shard=i/n to run one part again, with the n of the whole array"


def slurm_shard(environment: Mapping[str, str] = os.environ) -> Shard:
    """Raises ValueError where the variables are missing or name no part."""
    array, process = _array_task(environment), _process(environment)
    if array is None and process is None:
        raise ValueError(
            f"shard 'slurm': neither {_ARRAY}ID nor SLURM_PROCID is set: start the command in a "
            "job array (sbatch --array=0-7), or with srun; or give i/n, such as 0/4"
        )
    outer, inner = array or Shard(), process or Shard()
    return Shard(outer.index * inner.count + inner.index, outer.count * inner.count)


def _array_task(environment: Mapping[str, str]) -> Shard | None:
    if not environment.get(f"{_ARRAY}ID"):
        return None
    number, first, last, count = (
        _number(environment, f"{_ARRAY}{name}") for name in ("ID", "MIN", "MAX", "COUNT")
    )
    step = _number(environment, f"{_ARRAY}STEP") if environment.get(f"{_ARRAY}STEP") else 1
    if step < 1 or (last - first) // step + 1 != count or (number - first) % step:
        raise ValueError(
            f"shard 'slurm': the numbers of the array are not a range: {count} tasks from {first} "
            f"to {last}; {_FEWER}"
        )
    return Shard((number - first) // step, count)


def _process(environment: Mapping[str, str]) -> Shard | None:
    """The process of an `srun`; the script of a job is none, although it has a SLURM_PROCID."""
    if not (environment.get("SLURM_PROCID") and environment.get("SLURM_STEP_NUM_TASKS")):
        return None
    return Shard(_number(environment, "SLURM_PROCID"), _number(environment, "SLURM_STEP_NUM_TASKS"))


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"shard 'slurm': the variable {name} is {text!r}, not a whole number")
    return int(text)
