"""What makes two commands the same run."""

from typing import Any

import pytest

from rollgym.store import Identity, InputsIdentity, differences, result_relevant

INPUTS = InputsIdentity(2, 4, "ab" * 32)


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "policy_api_key",
        "OPENAI_API_KEY",
        "x-api-key",
        "Authorization",
        "password",
        "token",
        "cpu_cluster_token",
        "base_url",
        "policy_base_url",
        "vllm_server_url",
        "host",
        "host_ip",
        "master_port",
        "endpoints",
        "num_samples_in_parallel",
        "num_workers",
        "server_size",
        "concurrency",
    ],
)
def test_settings_that_cannot_change_results_are_left_out(name: str) -> None:
    assert result_relevant({name: "x", "kept": 1}) == {"kept": 1}
    assert result_relevant({"deep": [{name: 7}], "kept": 1}) == {"kept": 1}


@pytest.mark.parametrize(
    "name",
    [
        "max_output_tokens",
        "eos_token",
        "temperature",
        "seed",
        "report",
        "max_steps",
        "keyword",
        "curl",
        "model",
        "tokenizer",
        "accept_cookies",
    ],
)
def test_settings_that_can_change_results_are_kept(name: str) -> None:
    assert result_relevant({name: "x"}) == {name: "x"}


def test_addresses_are_also_told_by_their_value() -> None:
    addresses = {"judge": "https://judge.example/v1", "socket": "unix:///run/model"}
    others = {"note": "see https://x y", "model": "s3://checkpoints/step-100"}
    assert result_relevant(addresses | others) == others


def test_a_front_door_can_name_more_by_name_or_path() -> None:
    config = {"a": {"verbose": True, "b": 1}, "verbose": False, "c": {"b": 2}}
    assert result_relevant(config, {"verbose", "a.b"}) == {"c.b": 2}


def test_equal_configurations_are_equal_in_any_order_and_type_of_container() -> None:
    one = result_relevant({"a": (1, 2), "b": {"x": 1, "y": 2}})
    other = result_relevant({"b": {"y": 2, "x": 1}, "a": [1, 2]})
    assert one == other


def test_empty_containers_are_values() -> None:
    assert result_relevant({"stop": [], "extra": {}}) == {"stop": [], "extra": {}}


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        ({}, {}, []),
        ({"t": 1}, {"t": 1.5}, ["t: 1 in the run, 1.5 now"]),
        ({"t": None}, {}, ["t: null in the run, absent now"]),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, ["a: 1 in the run, 2 now", "b: 1 in the run, 2 now"]),
    ],
)
def test_every_difference_is_named(
    before: dict[str, Any], now: dict[str, Any], lines: list[str]
) -> None:
    assert differences(Identity(INPUTS, before, 0), Identity(INPUTS, now, 0)) == lines
