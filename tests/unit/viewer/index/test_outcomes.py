from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.index.entries import OutcomeCandidate, outcome_ids
from rollgym.viewer.summary import EntryStatus

CANDIDATES = st.lists(
    st.builds(
        OutcomeCandidate,
        st.integers(1, 1000),
        st.sampled_from([status.value for status in EntryStatus]),
        st.none() | st.integers(1, 5),
        st.just(True),
    ),
    unique_by=lambda each: each.id,
)


@given(CANDIDATES)
def test_of_a_journal_one_record_stands_if_any_can(candidates: list[OutcomeCandidate]) -> None:
    able = [each for each in candidates if each.status not in ("retried", "unreadable")]
    assert len(outcome_ids(candidates)) == min(len(able), 1)


@given(CANDIDATES, st.randoms())
def test_the_order_does_not_matter(candidates: list[OutcomeCandidate], random: Random) -> None:
    mixed = list(candidates)
    random.shuffle(mixed)
    assert outcome_ids(mixed) == outcome_ids(candidates)


def test_completed_before_failed_before_omitted_before_not_run() -> None:
    ranked = [
        OutcomeCandidate(number, status, attempt, in_journal=True)
        for number, (status, attempt) in enumerate(
            [("completed", 1), ("failed", 2), ("omitted", 3), ("input", None), ("retried", 9)]
        )
    ]
    for first in range(4):
        assert outcome_ids(ranked[first:]) == {first}
    assert outcome_ids(ranked[4:]) == set()


def test_whatever_is_completed_in_a_file_stands() -> None:
    rows = [OutcomeCandidate(number, "completed", 1, in_journal=False) for number in range(3)]
    assert outcome_ids([*rows, OutcomeCandidate(9, "failed", 4, in_journal=False)]) == {0, 1, 2}
