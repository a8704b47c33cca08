from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rollgym.viewer.index.standing import Candidate, outcomes
from rollgym.viewer.summary import Status

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.integers(1, 1000),
        st.sampled_from([status.value for status in Status]),
        st.none() | st.integers(1, 5),
        st.just(True),
    ),
    unique_by=lambda each: each.id,
)


@given(CANDIDATES)
def test_of_a_journal_one_record_stands_if_any_can(candidates: list[Candidate]) -> None:
    able = [each for each in candidates if each.status not in ("retried", "unreadable")]
    assert len(outcomes(candidates)) == min(len(able), 1)


@given(CANDIDATES, st.randoms())
def test_the_order_does_not_matter(candidates: list[Candidate], random: Random) -> None:
    mixed = list(candidates)
    random.shuffle(mixed)
    assert outcomes(mixed) == outcomes(candidates)


def test_completed_before_failed_before_omitted_before_not_run() -> None:
    ranked = [
        Candidate(number, status, attempt, settled=True)
        for number, (status, attempt) in enumerate(
            [("completed", 1), ("failed", 2), ("omitted", 3), ("input", None), ("retried", 9)]
        )
    ]
    for first in range(4):
        assert outcomes(ranked[first:]) == {first}
    assert outcomes(ranked[4:]) == set()


def test_whatever_is_completed_in_a_file_stands() -> None:
    rows = [Candidate(number, "completed", 1, settled=False) for number in range(3)]
    assert outcomes([*rows, Candidate(9, "failed", 4, settled=False)]) == {0, 1, 2}
