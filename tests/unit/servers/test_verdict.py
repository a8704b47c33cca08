"""What a verifier may say."""

import math
from typing import Any, cast

import pytest

from rollgym.records import VerifierError
from rollgym.servers import Verdict
from tests.cases import for_each


@for_each(("reward", "written"), [(1, 1.0), (0.25, 0.25), (-3, -3.0), (10**15, 1e15)])
def test_a_reward_is_a_number(reward: float, written: float) -> None:
    fields = Verdict(reward).as_fields()
    assert fields == {"reward": written}
    assert type(fields["reward"]) is float


@for_each("reward", [None, "1.0", True, False, [1.0], 1j])
def test_a_reward_that_is_no_number_is_refused(reward: Any) -> None:
    with pytest.raises(VerifierError, match="as reward, which is not a number"):
        Verdict(reward).as_fields()


@for_each("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(VerifierError, match="which is not finite"):
        Verdict(reward).as_fields()


def test_success_is_left_out_unless_the_verifier_says_so() -> None:
    assert "success" not in Verdict(1.0).as_fields()
    assert Verdict(1.0, success=False).as_fields() == {"reward": 1.0, "success": False}


def test_any_further_keyword_is_a_field() -> None:
    verdict = Verdict(0.5, success=True, city="Rom", fields=[1])
    assert verdict.as_fields() == {"city": "Rom", "fields": [1], "reward": 0.5, "success": True}


@for_each("name", ["response", "responses_create_params", "_ng_task_index", "rollgym_output"])
def test_a_field_that_is_not_the_verifiers_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(ValueError, match=f"a verdict cannot have the field '{name}'"):
        Verdict(1.0, success=None, **cast("Any", {name: "x"}))
