from itertools import zip_longest

from hypothesis import given
from hypothesis import strategies as st

from webgym.browser.contract.answers import PageInfo
from webgym.models.judge import Relevance
from webgym.models.judge_questions import ScreenshotChoice, choose_screenshots, distinct_screenshots
from webgym.trajectory.records import Image, Observation, Step


def steps_of(pictures: str) -> list[Step]:
    """A step for each letter, which stands for its picture; a dot is a step without one."""
    return [
        Step(
            observation=Observation(
                screenshot=None if letter == "." else Image(letter, "image/png", 1, 1),
                page=PageInfo("http://x/", letter),
            ),
            same_as_next_screenshot=letter == after if after else None,
        )
        for letter, after in zip_longest(pictures, pictures[1:])
    ]


def chosen(pictures: str, relevance: dict[int, int], most: int = 8) -> ScreenshotChoice:
    steps = steps_of(pictures)
    said = {step: Relevance("because", number) for step, number in relevance.items()}
    return choose_screenshots(steps, distinct_screenshots(steps), said, most)


def seen(pictures: str) -> str:
    return " ".join(
        f"{each.image.name}{each.step}" for each in distinct_screenshots(steps_of(pictures))
    )


def test_a_picture_is_looked_at_once_where_it_was_seen_last() -> None:
    assert seen("abc") == "a0 b1 c2"
    assert seen("aabbb") == "a1 b4"
    assert seen("abacb") == "a2 c3 b4"
    assert seen("a..b.") == "a0 b3"
    assert seen("..") == ""
    assert seen("") == ""


def test_a_picture_that_counts_as_the_next_is_left_out_even_if_its_bytes_differ() -> None:
    first, second = steps_of("ab")
    same = Step(observation=first.observation, same_as_next_screenshot=True)
    assert [each.step for each in distinct_screenshots([same, second])] == [1]
    assert [each.step for each in distinct_screenshots([same])] == [0]


def test_the_last_screenshot_is_always_judged_and_others_where_they_matter() -> None:
    choice = chosen("abcd", {0: 0, 1: 2, 2: 0})
    assert choice.step_ids == (1, 3)
    assert choice.judgments == {
        0: "relevance 0 of 3: because",
        1: "relevance 2 of 3: because",
        2: "relevance 0 of 3: because",
        3: "the last screenshot is always judged",
    }


def test_beyond_the_bound_the_most_relevant_are_kept_and_of_equals_the_later() -> None:
    choice = chosen("abcde", {0: 3, 1: 1, 2: 2, 3: 2}, most=3)
    assert choice.step_ids == (0, 3, 4)
    assert choice.judgments[2].endswith("; left out, for 3 others matter more")
    assert "left out" not in choice.judgments[3]
    assert chosen("abc", {0: 3, 1: 3}, most=1).step_ids == (2,)


def test_every_step_has_a_note_about_its_screenshot() -> None:
    choice = chosen("aa.ba", {3: 1})
    assert choice.step_ids == (3, 4)
    assert choice.judgments == {
        0: "the same screenshot as at step 4",
        1: "the same screenshot as at step 4",
        2: "there is no screenshot",
        3: "relevance 1 of 3: because",
        4: "the last screenshot is always judged",
    }


@given(
    st.text("abcdef.", min_size=1, max_size=20).filter(lambda text: text.strip(".")),
    st.lists(st.integers(0, 3), min_size=20, max_size=20),
    st.integers(1, 6),
)
def test_a_choice_is_bounded_ordered_and_without_repetition(
    pictures: str, relevance: list[int], most: int
) -> None:
    choice = chosen(pictures, dict(enumerate(relevance)), most)
    names = [each.image.name for each in choice.screenshots]
    assert 1 <= len(names) <= most
    assert len(set(names)) == len(names)
    assert list(choice.step_ids) == sorted(choice.step_ids)
    assert choice.screenshots[-1].image.name == pictures.rstrip(".")[-1]
    assert set(choice.judgments) == set(range(len(pictures)))
