import msgspec
import pytest

from webgym.sites.errors import StateError
from webgym.sites.sessions import SiteSession
from webgym.sites.tasks.checks import (
    LONGEST_ANSWER,
    Check,
    Has,
    HasCount,
    Is,
    Says,
    SaysNumber,
    Tells,
    at_path,
    is_like,
    numbers_in,
)
from webgym.sites.tasks.task import RubricGroup, SiteTask, SiteVerdict, verify

TRUTH: dict[str, object] = {
    "session": "abc",
    "lost": False,
    "orders": [{"number": "HB-1", "city": "Hest", "lines": [1, 2], "gift": True}],
    "saved": ["a", "b"],
    "captcha": {"walls": 0},
}


def task(*checks: Check, blocked: bool = False) -> SiteTask:
    return SiteTask(
        task_id="t",
        task_name="do it",
        website="http://x/",
        domain="d",
        subdomain="s",
        difficulty=1,
        evaluator_reference=(RubricGroup("do it", tuple(check.fact for check in checks)),),
        definite_answer=None,
        verifier="sites",
        truth=checks,
        blocked=blocked,
    )


def judged(answer: str | None, *checks: Check, truth: dict[str, object] = TRUTH) -> SiteVerdict:
    return verify(task(*checks), answer, truth)


def test_an_answer_must_say_it_and_nothing_else_that_it_could_be() -> None:
    for answer, reward in [
        ("Port Selwick", 1),
        ("It is  PORT\nselwick.", 1),
        ("“Port Selwick”", 1),
        ("Airport Selwick", 0),
        ("Port Selwicks", 0),
        ("Port", 0),
        ("Port Selwick or Hest", 0),
        ("", 0),
        ("  ", 0),
        (None, 0),
        ("Port Selwick " + "x" * LONGEST_ANSWER, 0),
    ]:
        assert (
            judged(answer, Says("f", ("Port Selwick", "the capital"), ("Hest",))).reward == reward
        )


def test_a_number_counts_however_it_is_written() -> None:
    for answer, reward in [
        ("1120", 1),
        ("1,120 houses", 1),
        ("about 1120.0", 1),
        ("$1,120.", 1),
        ("11200", 0),
        ("1121", 0),
        ("1.120", 0),
        ("x1120", 0),
        ("none", 0),
        ("1 2 3 4 5 6 7 8 1120", 0),
    ]:
        assert judged(answer, SaysNumber("f", 1120)).reward == reward


def test_small_numbers_may_be_words_and_units_may_touch() -> None:
    assert numbers_in("Four of TS-7731, -2 °C, 0.98kg, 16:50 and 1,234,567.5.") == {
        4,
        7731,
        -2,
        0.98,
        16,
        50,
        1234567.5,
    }


def test_all_facts_must_hold_and_each_that_does_not_has_its_reason() -> None:
    verdict = judged(
        "HB-1",
        Tells("number told", "orders.0.number"),
        Is("goes to Merrow", "orders.0.city", "Merrow"),
        Has("c is saved", "saved", "c"),
        HasCount("three are saved", "saved", 3),
    )
    assert verdict.reward == 0
    assert [fact.fact for fact in verdict.facts if fact.passed] == ["number told"]
    assert [fact.reason for fact in verdict.facts if not fact.passed] == [
        'orders.0.city is "Hest"',
        'saved has no member like "c"',
        "saved has 2 members",
    ]


def test_the_state_alone_can_be_enough() -> None:
    checks = (
        Is("city", "orders.0", {"city": " hest ", "gift": True}),
        Is("lines", "orders.0.lines", [1, 2]),
        Has("b", "saved", "b"),
        HasCount("orders", "orders", 1),
    )
    assert judged(None, *checks).reward == 1


def test_a_missing_path_fails_every_check() -> None:
    for check in (
        Tells("f", "orders.5.number"),
        Is("f", "nothing.at.all", "x"),
        Has("f", "orders.0", {}),
        HasCount("f", "session", 0),
    ):
        assert judged("x", check).reward == 0


def test_a_path_leads_through_objects_and_lists() -> None:
    assert at_path(TRUTH, "orders.0.lines.1") == 2
    assert at_path(TRUTH, "orders.-1") is None
    assert at_path(TRUTH, "orders.x") is None
    assert at_path(TRUTH, "session.0") is None


def test_kinds_of_values_are_not_confused() -> None:
    assert is_like(1, 1)
    assert not is_like(True, 1)
    assert not is_like(0, False)
    assert not is_like("1", 1)
    assert not is_like(None, "")
    assert is_like({"a": 1, "b": 2}, {"a": 1})
    assert not is_like({"a": 1}, {"a": 1, "b": None})
    assert not is_like([1, 2], [1])


def test_a_task_with_nothing_to_check_has_no_reward() -> None:
    assert judged("x").reward == 0


def test_a_lost_state_is_not_scored() -> None:
    lost = {**TRUTH, "lost": True}
    with pytest.raises(StateError, match="lost the state of session abc"):
        judged("x", HasCount("f", "saved", 2), truth=lost)
    with pytest.raises(StateError, match="not the state of a session"):
        judged("x", HasCount("f", "saved", 2), truth={"error": "there is no such session"})


def test_an_answer_is_judged_even_if_the_rest_was_lost() -> None:
    assert judged("7", SaysNumber("f", 7), truth={**TRUTH, "lost": True}).reward == 1


def test_a_task_behind_the_wall_has_no_reward_and_is_blocked_once_it_was_seen() -> None:
    behind = task(blocked=True)
    assert verify(behind, "x", TRUTH) == SiteVerdict(0, (), blocked=False)
    seen = {**TRUTH, "captcha": {"walls": 1}}
    assert verify(behind, "x", seen) == SiteVerdict(0, (), blocked=True)


def test_a_new_session_can_be_checked() -> None:
    truth = msgspec.json.decode(msgspec.json.encode(SiteSession("abc")))
    assert verify(task(HasCount("f", "shop.cart", 0)), None, truth).reward == 1
