"""Which rank a process is, and what is its own."""

from pathlib import Path
from typing import Any

import pytest

from rollgym.store import RefusedError
from webgym.rollout.environment_settings import EnvironmentSettings
from webgym.rollout.iteration import IterationPaths
from webgym.rollout.ranks import Rank, RankError, announce, find_rank, meet, paths_of_rank

LIMITS: dict[str, Any] = {
    "server_size": 64,
    "max_vllm_sessions": 128,
    "evaluation_workers": 16,
    "max_tokens": 1000,
    "max_cost": 8,
    "prices": {"policy": {"input": 1, "output": 1}},
}


def rank(environment: dict[str, str] | None = None, **settings: Any) -> Rank:
    return find_rank(EnvironmentSettings.model_validate(settings), environment or {})


def test_alone_there_is_one_rank_without_a_suffix() -> None:
    assert rank() == Rank(0, 1, (1.0,))
    assert rank().suffix == ""
    assert rank().is_master


def test_one_of_several_has_its_number_in_its_suffix() -> None:
    second = rank({"RANK": "1", "WORLD_SIZE": "3"})
    assert second == Rank(1, 3, (1.0, 1.0, 1.0))
    assert second.suffix == "_rank_1"
    assert not second.is_master


def test_slurm_numbers_its_tasks() -> None:
    found = rank({"SLURM_PROCID": "2", "SLURM_NTASKS": "4"})
    assert (found.index, found.count) == (2, 4)


def test_an_allocation_of_slurm_alone_makes_no_ranks() -> None:
    assert rank({"SLURM_NTASKS": "4"}).count == 1
    script = {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    assert rank(script).count == 1
    assert rank(script | {"SLURM_STEP_ID": "0"}).count == 4


def test_the_configuration_comes_before_variables_and_those_before_slurm() -> None:
    slurm = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}
    variables = {"RANK": "1", "WORLD_SIZE": "3"}
    assert rank(slurm | variables).count == 3
    assert rank(slurm | variables, multinode_rank=0, multinode_total_workers=2).count == 2


def test_weights_divide_servers_exactly() -> None:
    cases: list[str | list[float]] = ["2,1,1", " 2, 1 ,1.0", [2, 1, 1]]
    for written in cases:
        ranks = [
            rank(multinode_rank=index, multinode_total_workers=3, rank_weights=written)
            for index in range(3)
        ]
        assert [each.sessions(64) for each in ranks] == [32, 16, 16]


def test_a_rank_without_weight_has_no_servers() -> None:
    master = rank(multinode_rank=0, multinode_total_workers=2, rank_weights="0,1")
    assert master.sessions(8) == 0


def test_too_few_servers_are_refused_on_every_rank() -> None:
    for index in range(3):
        each = rank(multinode_rank=index, multinode_total_workers=3, rank_weights="2,1,1")
        with pytest.raises(RankError, match="weights 2,1,1 leaves rank 2 without a browser"):
            each.sessions(2)


def test_variables_that_name_no_rank_are_refused() -> None:
    cases: list[tuple[dict[str, str], str]] = [
        ({"RANK": "0"}, "RANK is set and WORLD_SIZE is not"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set and RANK is not"),
        ({"RANK": "one", "WORLD_SIZE": "2"}, "the variable RANK is 'one'"),
        ({"RANK": "-1", "WORLD_SIZE": "2"}, "the variable RANK is '-1'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2 does not exist"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "rank 0 of 0 does not exist"),
        ({"SLURM_PROCID": "x", "SLURM_NTASKS": "2"}, "SLURM_PROCID is 'x'"),
    ]
    for environment, said in cases:
        with pytest.raises(RankError, match=said):
            rank(environment)


def test_settings_that_contradict_themselves_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"multinode_rank": 1}, "multinode_total_workers is not"),
        ({"multinode_total_workers": 2}, "multinode_rank is not"),
        ({"rank_weights": "2,1,1"}, "has 3 weight.* for 1 rank"),
        ({"rank_weights": "0"}, "above 0"),
        ({"rank_load_weight": 2.0, "total_load_weight": 1.0}, "is less than rank_load_weight=2"),
        ({"rank_weights": "2", "rank_load_weight": 1.0}, "rank_load_weight=1 contradicts"),
        ({"rank_weights": "2", "total_load_weight": 3.0}, "total_load_weight=3 contradicts"),
    ]
    for settings, said in cases:
        with pytest.raises(RankError, match=said):
            rank(**settings)


def test_ranks_that_know_only_their_own_weight_learn_those_of_all(tmp_path: Path) -> None:
    paths = IterationPaths(tmp_path, "train", 0)
    ranks = [
        rank(multinode_rank=index, multinode_total_workers=3, rank_load_weight=weight)
        for index, weight in enumerate((2, 1, 1))
    ]
    for each in reversed(ranks[1:]):
        announce(paths, each)

    def last_rank_comes(_: float) -> None:
        announce(paths, ranks[0])

    met = meet(paths, ranks[1], timeout=60, sleep=last_rank_comes)
    assert met.weights == (2.0, 1.0, 1.0)
    assert [met.sessions(64), met.share(128), met.share(2)] == [16, 32, 1]
    assert rank(rank_load_weight=3).share(7) == 7


def test_a_rank_that_does_not_come_counts_with_the_weight_that_is_left(tmp_path: Path) -> None:
    paths, said = IterationPaths(tmp_path, "train", 0), list[str]()
    shared: dict[str, Any] = {"multinode_total_workers": 2, "total_load_weight": 4}
    first = rank(multinode_rank=0, rank_load_weight=3, **shared)
    announce(paths, first)
    met = meet(paths, first, timeout=0, report=said.append)
    assert met.weights == (3.0, 1.0)
    assert "rank 1 announced no rank_load_weight: the weights are 3,1" in said[-1]
    late = rank(multinode_rank=1, rank_load_weight=2, **shared)
    with pytest.raises(RefusedError, match="divided with the weights 3,1, where rank 1 has 1"):
        late.with_weights(met.weights)


def test_two_ranks_cannot_have_the_same_suffix(tmp_path: Path) -> None:
    paths = IterationPaths(tmp_path, "train", 0)
    shared: dict[str, Any] = {"multinode_total_workers": 2, "multinode_rank_suffix": "_node"}
    announce(paths, rank(multinode_rank=0, **shared))
    with pytest.raises(RankError, match="'_node' is that of rank 0"):
        announce(paths, rank(multinode_rank=1, **shared))
    assert paths_of_rank(paths, 0, 2).run.name == "iteration0_node.run"
    assert paths_of_rank(paths, 1, 2).run.name == "iteration0_rank_1.run"


def test_a_ranks_own_weight_may_be_said_beside_those_of_all() -> None:
    found = rank(
        {"RANK": "0", "WORLD_SIZE": "2"},
        rank_weights="2,1",
        rank_load_weight=2.0,
        total_load_weight=3.0,
    )
    assert found.weights == (2.0, 1.0)


def test_every_limit_of_a_run_is_divided_among_its_ranks() -> None:
    settings = EnvironmentSettings.model_validate(LIMITS)
    ranks = [
        rank(multinode_rank=index, multinode_total_workers=3, rank_weights="2,1,1")
        for index in range(3)
    ]
    parts = [each.resources(settings) for each in ranks]

    assert [each.sessions(settings.server_size) for each in ranks] == [32, 16, 16]
    for name in ("max_vllm_sessions", "evaluation_workers", "max_tokens", "max_cost"):
        divided = [getattr(part, name) for part in parts]
        assert divided == [getattr(settings, name) * share for share in (0.5, 0.25, 0.25)], name
    for name, size in settings.http_pools.plain.items():
        assert [part.http_pools.plain[name] for part in parts] == [size / 2, size / 4, size / 4]
