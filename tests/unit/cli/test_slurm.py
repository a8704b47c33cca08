"""Which part of a run a process of SLURM collects."""

import pytest

from rollgym.cli.slurm import slurm_shard
from rollgym.store import Shard
from tests.cases import for_each


def array(number: int, first: int, last: int, count: int, step: int = 1) -> dict[str, str]:
    values = {"ID": number, "MIN": first, "MAX": last, "COUNT": count, "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in values.items()}


PROCESS = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}


@for_each(
    ("variables", "shard"),
    [
        (array(0, 0, 7, 8), Shard(0, 8)),
        (array(8, 1, 8, 8), Shard(7, 8)),
        (array(20, 10, 30, 3, step=10), Shard(1, 3)),
        (PROCESS, Shard(1, 2)),
        (array(2, 0, 3, 4) | PROCESS, Shard(5, 8)),
        (array(2, 0, 3, 4) | {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, Shard(2, 4)),
    ],
)
def test_the_tasks_of_a_job_divide_a_run(variables: dict[str, str], shard: Shard) -> None:
    assert slurm_shard(variables) == shard


@for_each(
    ("variables", "message"),
    [
        ({}, "neither SLURM_ARRAY_TASK_ID nor SLURM_PROCID is set"),
        (array(3, 1, 7, 3), "not a range: 3 tasks from 1 to 7"),
        ({"SLURM_ARRAY_TASK_ID": "x"}, "SLURM_ARRAY_TASK_ID is 'x'"),
    ],
)
def test_variables_that_name_no_part_are_refused(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        slurm_shard(variables)
