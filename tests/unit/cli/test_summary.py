import json
from pathlib import Path

from rollgym.cli.summary import OVERRIDES, explain_coverage, headline, summary_lines
from rollgym.engine import AttemptRecorded, Coverage
from rollgym.monitor import LiveMetrics
from rollgym.records import (
    Attempt,
    Completed,
    Failed,
    Failure,
    FailureKind,
    OmitReason,
    Omitted,
    Outcome,
    Usage,
)


def metrics_of(*outcomes: Outcome, repeats: int = 1, final: bool = True) -> LiveMetrics:
    metrics = LiveMetrics()
    metrics.observe(
        [
            AttemptRecorded(
                Attempt(
                    task=number // repeats,
                    repeat=number % repeats,
                    repeats=repeats,
                    attempt=1,
                    final=final,
                    seed=0,
                    started=1000.0,
                    seconds=0.5,
                    outcome=outcome,
                ),
                Path("journal.jsonl"),
                0,
                None,
            )
            for number, outcome in enumerate(outcomes)
        ]
    )
    return metrics


def coverage(
    completed: int = 0, failed: int = 0, omitted: int = 0, unresolved: int = 0
) -> Coverage:
    expected = completed + failed + omitted + unresolved
    return Coverage(
        expected=expected,
        completed=completed,
        failed=failed,
        omitted=omitted,
        groups=expected,
        groups_complete=completed,
        resumed=0,
        attempts=expected,
        abandoned=0,
        dropped_events={},
    )


def test_tokens_of_failed_attempts_count() -> None:
    failure = Failure.make(FailureKind.TIMEOUT, "too long")
    metrics = metrics_of(
        Completed(1.0, usage=Usage(1000, 20)), Failed(failure, usage=Usage(3000, 7))
    )
    tokens = [line for line in summary_lines(metrics) if line.startswith("tokens")]
    assert tokens == ["tokens of all attempts: 4,000 in, 27 out; without a reward: 3,000 in, 7 out"]
    assert not any("tokens of" in line for line in summary_lines(metrics_of(Completed(1.0))))


def test_the_headline_has_the_names_people_know() -> None:
    measures = {"tool_calls": 2.0, "response_length": 847.0}
    metrics = metrics_of(Completed(1.0, measures=measures), Completed(1 / 3, measures=measures))
    assert headline(metrics.summary()) == {
        "avg_reward": 0.6667,
        "success_rate": 0.5,
        "avg_tool_calls": 2.0,
        "avg_response_length": 847.0,
    }


def test_web_rollouts_have_the_share_of_actions_and_the_tokens_of_a_step() -> None:
    rollouts = [
        Completed(1.0, success=True, measures={"replies": 3.0, "unparsed": 1.0, "tokens": 900.0}),
        Completed(0.0, success=False, measures={"replies": 1.0, "unparsed": 0.0, "tokens": 300.0}),
    ]
    numbers = headline(metrics_of(*rollouts).summary())
    assert (numbers["parse_rate"], numbers["tokens_per_step"]) == (0.75, 300.0)


def test_what_was_not_measured_is_null() -> None:
    assert headline(metrics_of(Completed(1.0)).summary()) == {
        "avg_reward": 1.0,
        "success_rate": 1.0,
        "avg_tool_calls": None,
        "avg_response_length": None,
    }


def test_without_a_reward_there_is_no_number() -> None:
    first = next(summary_lines(LiveMetrics()))
    names = ("avg_reward", "success_rate", "avg_tool_calls", "avg_response_length")
    assert json.loads(first) == dict.fromkeys(names)


def test_the_reason_of_what_was_retried_is_told() -> None:
    failed = Failed(Failure.make(FailureKind.MODEL_UNAVAILABLE, "check the base URL?"))
    lines = list(summary_lines(metrics_of(failed, final=False)))
    assert "  e.g. model_unavailable at task 0 repeat 0: check the base URL?" in lines


def test_groups_of_repeats_have_estimates() -> None:
    metrics = metrics_of(*[Completed(1.0), Completed(0.0)] * 3, repeats=2)
    numbers = headline(metrics.summary())
    assert (numbers["pass@1"], numbers["pass@2"], numbers["mean@2"]) == (0.5, 1.0, 0.5)


def test_failures_are_grouped_with_an_example_and_the_frequent_kind_first() -> None:
    timeout = Failed(Failure.make(FailureKind.TIMEOUT, "no end after 5.0 s"))
    tool = Failed(Failure.make(FailureKind.TOOL, "line one\nline two"))
    lines = list(summary_lines(metrics_of(timeout, tool, tool)))
    start = lines.index("failed rollouts by kind:")
    assert lines[start + 1 : start + 5] == [
        "  2 x tool (66.7 %): a tool or its server failed",
        "    e.g. task 1 repeat 0: line one line two",
        "  1 x timeout (33.3 %): the deadline passed",
        "    e.g. task 0 repeat 0: no end after 5.0 s",
    ]


def test_omissions_are_named() -> None:
    lines = list(summary_lines(metrics_of(Completed(1.0), Omitted(OmitReason.STRAGGLER))))
    assert "omitted: 1 x straggler" in lines


def test_the_last_lines_say_what_to_do_next() -> None:
    for found, meaning, advice in (
        (coverage(3), "every rollout is completed", "Done. `+resume=false` starts over."),
        (
            coverage(2, failed=1),
            "1 rollout failed and has no reward",
            "`+retry_failed=true` runs it again.",
        ),
        (
            coverage(2, omitted=2),
            "2 rollouts were omitted on purpose",
            "`+retry_omitted=true` runs them.",
        ),
        (
            coverage(failed=2, unresolved=7),
            "7 rollouts have no outcome yet",
            "Run the same command again to continue. Finished rollouts do not run twice.",
        ),
    ):
        assert explain_coverage(found, OVERRIDES) == (meaning, advice)
