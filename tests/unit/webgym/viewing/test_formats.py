"""What the index keeps of a web rollout."""

import msgspec
import pytest

from rollgym.records import OmitReason, Omitted
from rollgym.viewer.summary import EntryStatus, TaskFacts
from tests.trajectories import full_trajectory, step, trajectory
from tests.unit.webgym.viewing.recorded import (
    completed,
    failed,
    failed_fragment,
    fragment,
    line,
    nothing_known,
)
from webgym.trajectory.records import ActionRecord, Step
from webgym.viewing.formats import TORCH, TRAJECTORIES

COMPLETED = completed()
UNHEARD_OF = COMPLETED.replace(b"completed", b"perhaps")


def answering(text: str) -> Step:
    done = ActionRecord(key="answer", arguments={"text": text})
    return msgspec.structs.replace(step("answer", reward=1.0), action=done)


def test_a_completed_rollout_has_its_numbers() -> None:
    summary = TRAJECTORIES.summary(completed(), nothing_known)
    assert (summary.status, summary.task, summary.repeat, summary.attempt) == (
        EntryStatus.COMPLETED, 3, 1, 2,
    )  # fmt: skip
    assert (summary.reward, summary.success) == (1.0, None), "a page blocked it"
    assert (summary.steps, summary.tool_calls) == (2, 2)
    assert summary.tools == {"click": 1, "answer": 1}
    assert (summary.input_tokens, summary.output_tokens) == (10, 20)
    assert (summary.seconds, summary.started) == (10.0, 1000.0)
    assert (summary.model, summary.ending) == ("policy", "answer")
    assert summary.fields == {
        "task_id": "shop-1",
        "split": "test",
        "interaction_mode": "set_of_marks",
        "is_blocked": True,
        "policy_versions": "7, 8",
    }


def test_what_was_not_blocked_is_a_success_or_none() -> None:
    record = completed(trajectory(answering("Done"), ending="answer"))
    assert TRAJECTORIES.summary(record, nothing_known).success is True


def test_the_facts_are_those_of_its_task_row() -> None:
    facts = TRAJECTORIES.summary(completed(), nothing_known).facts
    assert (facts.title, facts.difficulty) == ("Find the café", 2)
    assert facts.key


def test_what_the_inputs_say_of_its_task_comes_first() -> None:
    known = TaskFacts(key="k", title="from the inputs")
    assert TRAJECTORIES.summary(completed(), {3: known}.get).facts == known


def test_the_detail_is_the_answer() -> None:
    record = completed(trajectory(answering("It costs\n$5."), ending="answer"))
    assert TRAJECTORIES.summary(record, nothing_known).detail == "It costs $5."


def test_a_step_without_an_action_of_the_agent_is_no_call() -> None:
    record = completed(trajectory(step("unparsed"), step("click"), step("blocked")))
    summary = TRAJECTORIES.summary(record, nothing_known)
    assert (summary.steps, summary.tool_calls) == (3, 1)
    assert summary.tools == {"unparsed": 1, "click": 1, "blocked": 1}


def test_a_failed_rollout_has_its_kind_and_no_reward() -> None:
    summary = TRAJECTORIES.summary(failed(full_trajectory()), nothing_known)
    assert (summary.status, summary.kind) == (EntryStatus.FAILED, "browser")
    assert summary.detail == "the browser 17 died"
    assert "the browser" in summary.cause
    assert (summary.reward, summary.success, summary.steps) == (None, None, 2)


def test_an_attempt_that_was_followed_by_another_is_retried() -> None:
    summary = TRAJECTORIES.summary(failed(final=False), nothing_known)
    assert (summary.status, summary.kind) == (EntryStatus.RETRIED, "browser")


def test_a_rollout_that_left_nothing_has_a_summary() -> None:
    summary = TRAJECTORIES.summary(failed(), nothing_known)
    assert (summary.task, summary.steps, summary.facts.title) == (3, 0, "")


def test_an_omitted_rollout_says_why() -> None:
    record = line(Omitted(OmitReason.STRAGGLER, "enough others"))
    summary = TRAJECTORIES.summary(record, nothing_known)
    assert (summary.status, summary.detail) == (EntryStatus.OMITTED, "straggler: enough others")


def test_a_trajectory_of_a_file_says_the_same_but_when_it_was() -> None:
    journal = TRAJECTORIES.summary(completed(), nothing_known)
    file = TORCH.summary(fragment(), nothing_known)
    assert file == msgspec.structs.replace(journal, seconds=None, started=None)


def test_a_failed_trajectory_of_a_file_has_its_kind() -> None:
    summary = TORCH.summary(failed_fragment(full_trajectory()), nothing_known)
    assert (summary.status, summary.kind, summary.reward) == (EntryStatus.FAILED, "browser", None)


def test_what_is_no_record_is_rejected() -> None:
    for record in [b"", b"{}", b"[1]", b'{"task":1}', b"\xff", COMPLETED[:-9], UNHEARD_OF]:
        with pytest.raises(ValueError, match=r"."):
            TRAJECTORIES.summary(record, nothing_known)


def test_what_is_no_trajectory_is_rejected() -> None:
    for record in [b"", b"}", b"]", b"cos\nsystem\n", fragment()[:-3]]:
        with pytest.raises(ValueError, match=r"."):
            TORCH.summary(record, nothing_known)
