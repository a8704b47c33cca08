"""Going back where there is nothing to go back to."""

from webgym.actions.space import Action, GoBack, Scroll
from webgym.browser.contract.commands import Back, VisitPage
from webgym.episode.episode import GoingBack
from webgym.tasks.task import Split

START = "http://shop.example/start"
ELSEWHERE = "http://shop.example/cart"


def begun(split: Split = "train") -> GoingBack:
    going_back = GoingBack(split)
    going_back.start(f"{START}#top")
    return going_back


def test_on_the_start_page_it_opens_that_page_again() -> None:
    going_back = begun()
    assert not going_back.stuck(GoBack(), f"{START}#reviews")
    assert going_back.command(Back()) == VisitPage(f"{START}#top")


def test_a_view_of_an_application_is_not_its_start_page() -> None:
    going_back = GoingBack("train")
    going_back.start("http://app.example/#/inbox")
    assert not any(going_back.stuck(GoBack(), "http://app.example/#/mail/7") for _ in range(5))
    assert going_back.command(Back()) == Back()
    assert not going_back.stuck(GoBack(), "http://app.example/#/inbox")
    assert going_back.command(Back()) == VisitPage("http://app.example/#/inbox")


def test_elsewhere_it_is_what_it_always_is() -> None:
    going_back = begun()
    assert not going_back.stuck(GoBack(), ELSEWHERE)
    assert going_back.command(Back()) == Back()


def test_the_third_time_in_a_row_ends_a_training_episode() -> None:
    going_back = begun()
    assert [going_back.stuck(GoBack(), START) for _ in range(3)] == [False, False, True]


def test_a_test_episode_goes_on() -> None:
    going_back = begun("test")
    assert not any(going_back.stuck(GoBack(), START) for _ in range(10))
    assert going_back.command(Back()) == VisitPage(f"{START}#top")


def test_anything_else_between_begins_the_count_anew() -> None:
    cases: list[tuple[Action, str]] = [(Scroll("down"), START), (GoBack(), ELSEWHERE)]
    for between, url in cases:
        going_back = begun()
        going_back.stuck(GoBack(), START)
        going_back.stuck(GoBack(), START)
        going_back.stuck(between, url)
        assert not going_back.stuck(GoBack(), START)
