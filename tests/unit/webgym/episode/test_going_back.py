"""Going back where there is nothing before: the start page again, and the end of the third time."""

from webgym.actions.space import Action, GoBack, Scroll
from webgym.browser.contract.answers import PageInfo, StepAnswer
from webgym.browser.contract.commands import VisitPage
from webgym.episode.episode import GoingBack
from webgym.tasks.task import Split

START = "http://shop.example/"
PRODUCT = f"{START}product"


def begun(split: Split = "train") -> GoingBack:
    going_back = GoingBack(split)
    going_back.start(START)
    return going_back


def came_to(url: str, *, moved: bool = True) -> StepAnswer:
    return StepAnswer(PageInfo(url, ""), {"status": "success", "moved": moved})


NOWHERE = came_to(START, moved=False)


def test_the_start_page_is_opened_again_where_the_history_begins() -> None:
    assert begun().note(GoBack(), START, NOWHERE) == VisitPage(START)


def test_the_history_decides_and_not_the_address() -> None:
    going_back = begun()
    for _ in range(5):  # start, product, home: going back from home comes to the product
        assert going_back.note(GoBack(), START, came_to(PRODUCT)) is None
        assert not going_back.is_stuck


def test_the_third_time_in_a_row_ends_a_training_episode() -> None:
    for answer in (NOWHERE, came_to(START)):  # also where the history only forwards to the start
        training, testing = begun(), begun("test")
        stuck = []
        for _ in range(3):
            training.note(GoBack(), START, answer)
            testing.note(GoBack(), START, answer)
            stuck.append(training.is_stuck)
        assert stuck == [False, False, True]
        assert not testing.is_stuck


def test_anything_else_between_begins_the_count_anew() -> None:
    between: list[tuple[Action, StepAnswer]] = [
        (Scroll("down"), came_to(START)),
        (GoBack(), came_to(PRODUCT)),
    ]
    for action, answer in between:
        going_back = begun()
        going_back.note(GoBack(), START, NOWHERE)
        going_back.note(GoBack(), START, NOWHERE)
        going_back.note(action, START, answer)
        going_back.note(GoBack(), START, NOWHERE)
        assert not going_back.is_stuck
