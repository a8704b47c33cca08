from hypothesis import given, settings
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


@settings(max_examples=50)
@given(CANDIDATES)
def test_a_journal_has_at_most_one_outcome_whatever_the_order_of_its_records(
    candidates: list[OutcomeCandidate],
) -> None:
    able = [each for each in candidates if each.status not in ("retried", "unreadable")]
    assert len(outcome_ids(candidates)) == min(len(able), 1)
    assert outcome_ids(candidates[::-1]) == outcome_ids(candidates)


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
