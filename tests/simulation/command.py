"""The command that a person gives again and again: the run's tasks, configuration and seed."""

from collections.abc import Iterator
from pathlib import Path

from rollgym.records import Row, Task
from rollgym.store import Disk, RefusedError, RunStore, open_run
from rollgym.store.run import Replay
from tests.simulation.plan import Intrusion, Life, Plan
from tests.simulation.story import Refusal

TEMPERATURE = 0.7


def tasks_of(plan: Plan) -> Iterator[Task]:
    for task in plan.tasks:
        yield Task(task.index, Row(b'{"question": "%d"}' % task.index), task.repeats)


def open_planned(
    plan: Plan, directory: Path, life: Life, *, disk: Disk, replay: Replay | None = None
) -> RunStore:
    """Open the run as the life does; raises what `open_run` raises."""
    return open_run(
        directory,
        tasks_of(plan),
        config={"temperature": TEMPERATURE, "api_key": f"key of {life.limit}"},
        seed=plan.run_seed,
        shard=life.shard,
        sync=life.sync,
        reopen=life.reopen,
        replay=replay,
        disk=disk,
    )


def intrude(plan: Plan, directory: Path, intrusion: Intrusion) -> Refusal:
    """Give a command that means another run, on a directory that holds this one."""
    before = _contents(directory)
    tasks, temperature, seed = list(tasks_of(plan)), TEMPERATURE, plan.run_seed
    match intrusion:
        case Intrusion.SEED:
            seed += 1
        case Intrusion.CONFIG:
            temperature += 0.1
        case Intrusion.INPUTS:
            tasks = [*tasks[:-1], Task(10_000, Row(b"{}"))]
    message = None
    try:
        open_run(directory, tasks, config={"temperature": temperature}, seed=seed).close()
    except RefusedError as error:
        message = str(error)
    return Refusal(intrusion, message, changed=before != _contents(directory))


def _contents(directory: Path) -> dict[str, bytes]:
    """Every file but the locks, which say who looked last."""
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.is_file() and path.suffix != ".lock"
    }
