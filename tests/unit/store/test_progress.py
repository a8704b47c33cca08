"""What a run knows of its rollouts."""

import pytest

from rollgym.records import Completed, FailureKind, OmitReason, Omitted, RecordState
from rollgym.store import Progress, Status
from tests.builders import failed, record

HISTORY = record(attempt=1, final=False, outcome=failed())


def test_a_rollout_that_is_completed_has_no_history() -> None:
    """Else a resumed run would hold a history for every rollout that was ever retried."""
    progress = Progress()
    for noted in (HISTORY, record(attempt=2)):
        progress.note(noted, current=True)
    assert progress.take(0, 0) is None
    assert not progress._priors


def test_a_rollout_without_an_outcome_goes_on_with_its_history() -> None:
    progress = Progress()
    progress.note(HISTORY, current=True)
    progress.note(record(attempt=2, final=False, outcome=Omitted(OmitReason.CUT)), current=True)
    prior = progress.take(0, 0)
    assert prior is not None
    assert (prior.attempts, prior.cuts, prior.cause) == (2, 1, None)


@pytest.mark.parametrize("again", [Completed(1.0), failed(FailureKind.TIMEOUT)])
def test_an_outcome_is_reopened_once_and_counts_until_it_is_replaced(
    again: Completed,
) -> None:
    progress = Progress()
    progress.add(record(0, 0, repeats=2, outcome=failed()))
    progress.add(record(0, 1, repeats=2))
    assert progress.take(0, 0) is None
    assert progress.reopen([Status.FAILED]) == 1
    assert progress.reopen([Status.FAILED, Status.OMITTED]) == 0
    assert (progress.count(Status.FAILED), progress.reopened, progress.waiting) == (1, 1, 1)
    prior = progress.take_reopened(0, 0)
    assert prior is not None
    assert prior.cause is FailureKind.TOOL
    assert progress.take(0, 0) is None
    progress.add(record(0, 0, repeats=2, attempt=2, outcome=again))
    assert (progress.reopened, progress.waiting, progress.reruns(0)) == (0, 0, 1)
    done = isinstance(again, Completed)
    assert progress.count(Status.COMPLETED) == 1 + done
    assert progress.groups_complete == done


def test_the_reruns_of_a_task_are_counted_from_its_records() -> None:
    progress = Progress(reopen=[Status.OMITTED])
    states = [
        progress.note(record(3, outcome=failed()), current=False),
        progress.note(record(3, attempt=2, outcome=Omitted(OmitReason.STALE)), current=True),
    ]
    assert states == [RecordState.SUPERSEDED, RecordState.REOPENED]
    assert progress.reruns(3) == 2
