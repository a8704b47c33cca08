import msgspec
import pytest

from webgym.models.judging.findings import Blocking, Evaluation, FactFinding, Finding, Result

OPEN = Blocking.of(False, "nothing in the way")


def evaluation(*verdicts: Result, blocking: Blocking = OPEN) -> Evaluation:
    criteria = {str(number): Finding(verdict, "so") for number, verdict in enumerate(verdicts)}
    return Evaluation(judge="model:x", criteria=criteria, blocking=blocking)


@pytest.mark.parametrize(
    ("verdicts", "reward"),
    [
        ([], 0.0),
        (["pass"], 1.0),
        (["pass", "pass", "pass"], 1.0),
        (["pass", "fail"], 0.0),
        (["pass", "not_asked"], 0.0),
        (["not_asked"], 0.0),
        (["fail", "not_asked", "pass"], 0.0),
    ],
)
def test_a_reward_is_earned_by_passing_everything(verdicts: list[Result], reward: float) -> None:
    assert evaluation(*verdicts).reward == reward


@pytest.mark.parametrize(
    ("verdicts", "together"),
    [
        ([], "not_asked"),
        (["pass", "pass"], "pass"),
        (["pass", "fail"], "fail"),
        (["fail", "not_asked"], "fail"),
        (["pass", "not_asked"], "not_asked"),
    ],
)
def test_a_rubric_passes_with_all_of_its_facts(verdicts: list[Result], together: Result) -> None:
    facts = [FactFinding(f"fact {verdict}", verdict, f"why {verdict}") for verdict in verdicts]
    assert Finding.of_facts(facts).verdict == together


def test_a_failed_rubric_gives_the_reason_of_the_fact_that_failed() -> None:
    facts = [FactFinding("a", "pass", "seen"), FactFinding("b", "fail", "not seen")]
    assert Finding.of_facts(facts).reason == "not seen"


@pytest.mark.parametrize(
    ("blocking", "blocked"),
    [(OPEN, False), (Blocking.of(True, "a wall"), True), (Blocking("not_asked", ""), False)],
)
def test_only_who_was_seen_at_a_wall_was_blocked(blocking: Blocking, blocked: bool) -> None:
    assert evaluation("fail", blocking=blocking).is_blocked is blocked


def test_an_evaluation_is_plain_json_and_long_reasons_are_cut() -> None:
    told = Evaluation(
        judge="model:x", criteria={"a": Finding.of(True, "x" * 10_000)}, blocking=OPEN
    ).as_json()
    assert msgspec.json.decode(msgspec.json.encode(told)) == told
    assert told["judge"] == "model:x"
    assert len(msgspec.json.encode(told)) < 3_000
