import msgspec

from webgym.models.assessment import (
    BlockingResult,
    CriterionResult,
    CriterionVerdict,
    Evaluation,
    FactOutcome,
)

OPEN = BlockingResult.of(False, "nothing in the way")


def evaluation(*verdicts: CriterionVerdict, blocking: BlockingResult = OPEN) -> Evaluation:
    criteria = {
        str(number): CriterionResult(verdict, "so") for number, verdict in enumerate(verdicts)
    }
    return Evaluation(judge="model:x", criteria=criteria, blocking=blocking)


def test_a_reward_is_earned_by_passing_everything() -> None:
    cases: list[tuple[list[CriterionVerdict], float]] = [
        ([], 0.0),
        (["pass"], 1.0),
        (["pass", "pass", "pass"], 1.0),
        (["pass", "fail"], 0.0),
        (["pass", "not_asked"], 0.0),
        (["not_asked"], 0.0),
        (["fail", "not_asked", "pass"], 0.0),
    ]
    for verdicts, reward in cases:
        assert evaluation(*verdicts).reward == reward


def test_a_rubric_passes_with_all_of_its_facts() -> None:
    cases: list[tuple[list[CriterionVerdict], str]] = [
        ([], "not_asked"),
        (["pass", "pass"], "pass"),
        (["pass", "fail"], "fail"),
        (["fail", "not_asked"], "fail"),
        (["pass", "not_asked"], "not_asked"),
    ]
    for verdicts, together in cases:
        facts = [FactOutcome(f"fact {verdict}", verdict, f"why {verdict}") for verdict in verdicts]
        assert CriterionResult.of_facts(facts).verdict == together


def test_a_failed_rubric_gives_the_reason_of_the_fact_that_failed() -> None:
    facts = [FactOutcome("a", "pass", "seen"), FactOutcome("b", "fail", "not seen")]
    assert CriterionResult.of_facts(facts).reason == "not seen"


def test_only_a_blocked_verdict_means_blocked() -> None:
    for blocking, blocked in [
        (OPEN, False),
        (BlockingResult.of(True, "a wall"), True),
        (BlockingResult("not_asked", ""), False),
    ]:
        assert evaluation("fail", blocking=blocking).is_blocked is blocked


def test_an_evaluation_is_plain_json_and_long_reasons_are_cut() -> None:
    told = (
        Evaluation(
            judge="model:x", criteria={"a": CriterionResult.of(True, "x" * 10_000)}, blocking=OPEN
        )
        .verdict()
        .evaluation
    )
    assert msgspec.json.decode(msgspec.json.encode(told)) == told
    assert told["judge"] == "model:x"
    assert len(msgspec.json.encode(told)) < 3_000
