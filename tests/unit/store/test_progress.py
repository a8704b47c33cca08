"""What resuming keeps in memory."""

from rollgym.records import Attempt
from rollgym.store import Progress
from tests.builders import failed, record

HISTORY = record(attempt=1, final=False, outcome=failed())


def test_the_history_of_a_rollout_that_has_its_end_is_forgotten() -> None:
    """Else a resumed run would hold a history for every rollout that was ever retried."""
    cases: list[Attempt] = [record(attempt=2), record(attempt=2, outcome=failed())]
    for end in cases:
        progress = Progress()
        for noted in (HISTORY, end):
            progress.note(noted, current=True)
        assert progress.pop_prior(0, 0) is None


def test_the_history_of_a_rollout_without_an_end_is_given_away_once() -> None:
    progress = Progress()
    progress.note(HISTORY, current=True)
    prior = progress.pop_prior(0, 0)
    assert prior is not None
    assert prior.attempts == 1
    assert progress.pop_prior(0, 0) is None
