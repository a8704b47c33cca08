"""Three ranks as three processes that share nothing but a folder."""

from pathlib import Path

import pytest

from rollgym.engine import ExitStatus
from tests.e2e.rolling import (
    Iteration,
    Rollout,
    Stage,
    keys,
    number_task,
    rewards,
    roll_out,
    stage_of_module,
    write_tasks,
)

RANKS = 3
TASKS = 8
SHARES = (4, 2, 2)
EVERYTHING = [(number, 0) for number in range(TASKS)]

servers = stage_of_module(latency=0.2)


def variables(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}


def options_of(folder: Path) -> list[str]:
    tasks = [number_task(number, slowly=True) for number in range(TASKS)]
    weighted = ["env_config.rank_weights=2,1,1", "env_config.server_size=4"]
    return [*write_tasks(folder, tasks), *weighted]


SUFFIXES = ("_rank_0", "_node_b", "_rank_2")


def own_options(folder: Path, rank: int) -> list[str]:
    """Each rank knows its own weight alone; one has a suffix of its own."""
    shared = [each for each in options_of(folder) if "rank_weights" not in each]
    weight = f"env_config.rank_load_weight={SHARES[rank] / 2}"
    own = f"env_config.multinode_rank_suffix={SUFFIXES[rank]}"
    return [*shared, weight, *([own] if rank == 1 else [])]


def test_a_rank_that_is_killed_and_run_again_is_in_the_whole_once(
    tmp_path: Path, servers: Stage
) -> None:
    files = [Iteration(tmp_path, suffix=suffix) for suffix in SUFFIXES]
    running = [
        Rollout(servers, tmp_path, *own_options(tmp_path, rank), variables=variables(rank))
        for rank in range(RANKS)
    ]
    running[1].until(files[1].has_ended(1))
    running[1].kill()
    before = files[1].ends
    running[1] = Rollout(servers, tmp_path, *own_options(tmp_path, 1), variables=variables(1))
    for rank, rollout in enumerate(running):
        ended = rollout.end()
        assert ended.status == ExitStatus.COMPLETE, (rank, ended.stdout, ended.stderr)
    assert files[1].ends[: len(before)] == before
    assert tuple(len(each.ends) for each in files) == SHARES
    whole = Iteration(tmp_path)
    assert keys(whole.trajectories) == EVERYTHING
    assert rewards(whole.trajectories) == {f"number-{number}": 1.0 for number in range(TASKS)}
    assert (whole.report.final, whole.report.coverage.completed) == (True, TASKS)
    assert whole.report.metrics.successes == TASKS


@pytest.mark.campaign
def test_a_rank_that_is_missing_is_named_and_taken_in_later(tmp_path: Path, servers: Stage) -> None:
    options = [*options_of(tmp_path), "env_config.aggregation_timeout_minutes=0.05"]
    other = Rollout(servers, tmp_path, *options, variables=variables(1))
    incomplete = roll_out(
        servers, tmp_path, *options, variables=variables(0), status=ExitStatus.INTERRUPTED
    )
    assert other.end().status == ExitStatus.COMPLETE
    assert "missing: rank 2 with 2 tasks (no files yet)" in incomplete.stderr
    whole = Iteration(tmp_path)
    assert not whole.report.final
    assert 2 in whole.report.missing_ranks
    assert whole.report.coverage.unresolved >= SHARES[2]

    roll_out(servers, tmp_path, *options, variables=variables(2))
    again = roll_out(servers, tmp_path, *options, variables=variables(0))
    assert "Iteration 0 is finished on rank 0. No rollout was run." in again.stderr
    assert again.coverage == "8 expected = 8 completed + 0 failed + 0 omitted + 0 unresolved"
    assert keys(whole.trajectories) == EVERYTHING
    assert whole.report.final


class OwnServers(Stage):
    """Each rollout has its own."""

    def __init__(self) -> None:
        pass

    @property
    def options(self) -> list[str]:
        return ["model_config.model_type=baseline", "embedded=[browser,sites,scripted]"]


@pytest.mark.campaign
def test_ranks_and_splits_of_one_folder_have_servers_of_their_own(tmp_path: Path) -> None:
    options = [*options_of(tmp_path), "env_config.train_tasks_rollout_size=4"]
    ranks = [
        Rollout(OwnServers(), tmp_path, *options, variables=variables(rank))
        for rank in range(RANKS)
    ]
    alone = ["env_config.rank_weights=null", "env_config.test_tasks_rollout_size=1"]
    test = Rollout(OwnServers(), tmp_path, *options, *alone, config="rollout_test")
    for rollout in (*ranks, test):
        ended = rollout.end()
        assert ended.status == ExitStatus.COMPLETE, (ended.stdout, ended.stderr)
    logs = [path.name.partition("-")[0] for path in (tmp_path / "logs").iterdir()]
    assert sorted(logs) == sorted(["browser", "scripted", "sites"] * (RANKS + 1))


@pytest.mark.campaign
def test_a_finished_iteration_is_only_that_of_its_settings(tmp_path: Path, servers: Stage) -> None:
    options = [*write_tasks(tmp_path, [number_task(1)]), "env_config.server_size=2"]
    roll_out(servers, tmp_path, *options)
    roll_out(servers, tmp_path, *options, "iteration=0")
    for other, difference in [
        ("seed=7", "seed: 0 in the sample, 7 now"),
        ("context_config.window=9", "context_config.window: 4 in the run, 9 now"),
    ]:
        refused = roll_out(
            servers, tmp_path, *options, "iteration=0", other, status=ExitStatus.REFUSED
        )
        assert difference in refused.stderr
    roll_out(servers, tmp_path, *options, "retry_failed=true")
    assert not Iteration(tmp_path, number=1).paths.sample.exists()
