from hypothesis import given

from rollgym.metrics import TaskProfile, reward_profile
from rollgym.records import Attempt, OmitReason, Omitted
from tests.unit.metrics.strategies import REWARDED, UNREWARDED, attempt, failed, group, runs


def test_a_profile_tells_how_a_tasks_repeats_ended() -> None:
    records = group(UNREWARDED, REWARDED, failed(), Omitted(OmitReason.SKIPPED), task=7)
    assert list(reward_profile(records)) == [
        TaskProfile(
            task=7,
            repeats=4,
            completed=2,
            failed=1,
            omitted=1,
            successes=1,
            mean=0.5,
            std=0.5,
            min=0.0,
            max=1.0,
        )
    ]


def test_a_task_is_yielded_before_the_next_record_is_read() -> None:
    unread = iter([*group(REWARDED, UNREWARDED, task=1), *group(failed(), task=0)])
    profiles = reward_profile(unread)
    assert next(profiles).task == 1
    (profile,) = profiles
    assert (profile.mean, profile.std, profile.min, profile.max) == (None, None, None, None)


def test_open_tasks_come_last_in_the_order_of_their_index() -> None:
    records = [
        attempt(REWARDED, task=9, repeats=2),
        attempt(REWARDED, task=2, repeats=2),
        attempt(REWARDED, task=5),
    ]
    assert [profile.task for profile in reward_profile(records)] == [5, 2, 9]


@given(runs())
def test_each_task_with_an_end_has_one_profile_that_counts_all_its_ends(
    attempts: list[Attempt],
) -> None:
    ends = [record for record in attempts if record.final]
    profiles = list(reward_profile(attempts))
    assert sorted(profile.task for profile in profiles) == sorted({end.task for end in ends})
    counted = sum(profile.completed + profile.failed + profile.omitted for profile in profiles)
    assert counted == len(ends)
