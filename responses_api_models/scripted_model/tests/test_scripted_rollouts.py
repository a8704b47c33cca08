"""Rollouts with the scripted model: well and badly played, and the same every time."""

import asyncio
from collections.abc import Iterable

import pytest

from responses_api_models.scripted_model.app import ScriptedModelConfig
from responses_api_models.scripted_model.tests.rolling_out import example_rows, items, roll_out

TOOL_EXAMPLES = ["example_multi_step", "example_single_tool_call", "example_session_state_mgmt"]
EXAMPLES = [*TOOL_EXAMPLES, "mcqa"]
DEFAULTS = ScriptedModelConfig()
PERFECT = ScriptedModelConfig(skill=1.0)
HOPELESS = ScriptedModelConfig(skill=0.0)
CLUMSY = ScriptedModelConfig(skill=0.3)


def test_with_full_skill_every_example_is_solved() -> None:
    cases: Iterable[str] = EXAMPLES
    for environment in cases:
        rollouts = asyncio.run(roll_out(environment, PERFECT, repeats=4))
        assert [rollout["reward"] for rollout in rollouts] == [1.0] * 20


def test_without_skill_no_example_is_solved() -> None:
    cases: Iterable[str] = EXAMPLES
    for environment in cases:
        rollouts = asyncio.run(roll_out(environment, HOPELESS, repeats=4))
        assert not any(rollout["success"] for rollout in rollouts)


def test_programs_are_written_as_far_as_a_script_can() -> None:
    pytest.importorskip("resource")
    assert_partly_solved("code_gen")


@pytest.mark.campaign
def test_examples_of_the_other_environments_are_solved_as_far_as_a_script_can() -> None:
    for environment, module in (("math", "math_verify"), ("reasoning_gym", "reasoning_gym")):
        pytest.importorskip(module)
        assert_partly_solved(environment)


def assert_partly_solved(environment: str) -> None:
    solved = asyncio.run(roll_out(environment, PERFECT))
    assert sum(rollout["success"] for rollout in solved) >= 3
    spoiled = asyncio.run(roll_out(environment, HOPELESS))
    assert not any(rollout["success"] for rollout in spoiled)


def test_as_configured_two_repeats_of_the_examples_are_a_mix() -> None:
    cases: Iterable[str] = EXAMPLES
    for environment in cases:
        rewards = [
            rollout["reward"] for rollout in asyncio.run(roll_out(environment, DEFAULTS, repeats=2))
        ]
        assert 0.3 < sum(rewards) / len(rewards) < 0.95


def test_the_same_rollouts_are_the_same_again_also_over_http() -> None:
    cases: Iterable[str] = EXAMPLES
    for environment in cases:
        once = asyncio.run(roll_out(environment, CLUMSY, repeats=2))
        assert asyncio.run(roll_out(environment, CLUMSY, repeats=2)) == once
        assert asyncio.run(roll_out(environment, CLUMSY, repeats=2, transport="HTTP")) == once


def test_another_seed_plays_differently() -> None:
    first = asyncio.run(roll_out("example_multi_step", CLUMSY, repeats=2))
    other = ScriptedModelConfig(skill=0.3, seed=1)
    second = asyncio.run(roll_out("example_multi_step", other, repeats=2))
    assert [each["reward"] for each in first] != [each["reward"] for each in second]


def test_repeats_of_one_task_differ_from_each_other() -> None:
    row = example_rows("example_multi_step")[2]
    rollouts = asyncio.run(roll_out("example_multi_step", DEFAULTS, repeats=20, rows=[row]))
    assert len({rollout["reward"] for rollout in rollouts}) > 1
    assert len({len(rollout["response"]["output"]) for rollout in rollouts}) > 2


def test_some_documents_are_read_in_part_and_earn_their_share() -> None:
    rollouts = asyncio.run(roll_out("example_multi_step", HOPELESS, repeats=8))
    assert any(0 < rollout["reward"] < 1 for rollout in rollouts)
    assert any(rollout["extracted_answers"] == [] for rollout in rollouts)


def test_garbled_arguments_are_seen_and_written_again() -> None:
    cases: Iterable[str] = TOOL_EXAMPLES
    for environment in cases:
        rollouts = asyncio.run(roll_out(environment, CLUMSY, repeats=8))
        stumbled = [
            rollout
            for rollout in rollouts
            if any(
                "not a JSON object" in item["output"]
                for item in items(rollout, "function_call_output")
            )
        ]
        assert stumbled
        assert any(rollout["success"] for rollout in stumbled)
        for rollout in stumbled:
            assert items(rollout, "message")[-1] == rollout["response"]["output"][-1]


def test_some_turns_call_several_tools_at_once_unless_that_is_not_wanted() -> None:
    cases: Iterable[str] = TOOL_EXAMPLES
    for environment in cases:

        def calls_in_a_row(parallel: bool) -> bool:
            rows = example_rows(environment)
            for row in rows:
                row["responses_create_params"]["parallel_tool_calls"] = parallel
            rollouts = asyncio.run(roll_out(environment, PERFECT, repeats=6, rows=rows))
            kinds = [
                " ".join(item["type"] for item in each["response"]["output"]) for each in rollouts
            ]
            return any("function_call function_call " in kind for kind in kinds)

        assert calls_in_a_row(parallel=True)
        assert not calls_in_a_row(parallel=False)


def test_some_rollouts_reason_some_talk_and_some_just_act() -> None:
    rollouts = asyncio.run(roll_out("example_multi_step", PERFECT, repeats=6))
    reasoning = [bool(items(rollout, "reasoning")) for rollout in rollouts]
    talking = [len(items(rollout, "message")) > 1 for rollout in rollouts]
    manners = set(zip(reasoning, talking, strict=True))
    assert manners == {(True, False), (False, True), (False, False)}


def test_all_identifiers_of_a_run_are_different() -> None:
    rollouts = asyncio.run(roll_out("example_multi_step", CLUMSY, repeats=3))
    produced = [
        item
        for rollout in rollouts
        for item in rollout["response"]["output"]
        if item["type"] != "function_call_output"
    ]
    assert len({item["id"] for item in produced}) == len(produced)
    calls = [item["call_id"] for item in produced if item["type"] == "function_call"]
    assert len(set(calls)) == len(calls)
