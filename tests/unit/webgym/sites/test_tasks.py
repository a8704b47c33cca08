from collections import Counter
from datetime import date
from pathlib import Path

import msgspec
import pytest

from webgym.sites import tasks as package
from webgym.sites.booking.cabins import CABINS, is_free, is_free_for
from webgym.sites.errors import SitesError
from webgym.sites.sessions import SiteSession
from webgym.sites.shop.catalogue import ProductQuery, search_products
from webgym.sites.tasks.checks import Says, SaysNumber
from webgym.sites.tasks.task import (
    SPLITS,
    ActionKind,
    SiteTask,
    action_of,
    load_solutions,
    load_tasks,
    start_url,
    verify,
)

TASKS = [task for split in SPLITS for task in load_tasks(split)]


def test_there_are_tasks_of_every_difficulty_in_both_splits() -> None:
    assert len(TASKS) >= 36
    assert len({task.task_id for task in TASKS}) == len(TASKS)
    for split in SPLITS:
        levels = Counter(min((task.difficulty - 1) // 3, 2) for task in load_tasks(split))
        assert set(levels) == {0, 1, 2}
    assert {task.website.split("/")[3] for task in TASKS} == {
        *("shop", "encyclopedia", "booking", "slow", "widgets", "broken", "captcha")
    }


def test_every_task_is_complete_and_its_rubric_states_the_checked_facts() -> None:
    for task in TASKS:
        assert task.task_name
        assert task.website.startswith("http://127.0.0.1:7300/")
        assert 1 <= task.difficulty <= 9
        assert task.domain
        assert task.subdomain
        assert all(group.description and group.facts for group in task.evaluator_reference)
        facts = [fact for group in task.evaluator_reference for fact in group.facts]
        assert task.blocked or facts == [check.fact for check in task.truth]
        answers = any(isinstance(check, Says | SaysNumber) for check in task.truth)
        assert answers or task.definite_answer is None


def test_every_task_has_a_solution_that_ends_with_an_answer() -> None:
    solutions = load_solutions()
    assert set(solutions) == {task.task_id for task in TASKS}
    for solution in solutions.values():
        assert solution.actions[-1].kind is ActionKind.ANSWER
        assert solution.actions[-1].value
        kinds = [action.kind for action in solution.actions]
        assert kinds.count(ActionKind.ANSWER) == 1


def test_nothing_done_and_a_guess_get_no_reward() -> None:
    state = msgspec.json.decode(msgspec.json.encode(SiteSession("abc")))
    for task in TASKS:
        for answer in (None, "", "I do not know.", "Done."):
            assert verify(task, answer, state).reward == 0


def test_a_start_url_has_the_address_of_the_sites_and_the_session() -> None:
    tasks = {task.task_id: task for task in load_tasks("train", "http://localhost:9/x/")}
    task = tasks["sites-captcha-03"]
    assert task.website == "http://localhost:9/x/captcha/concerts?month=july"
    assert start_url(task, "abc1") == f"{task.website}&session=abc1"
    with pytest.raises(SitesError, match="1 to 64 letters and digits"):
        start_url(task, "a/b")


def test_a_wrong_address_or_split_is_rejected() -> None:
    for base in ["", "localhost:7300", "ftp://x", "http://", "http://x/?a=b"]:
        with pytest.raises(SitesError, match="not a base URL"):
            load_tasks("train", base)
        with pytest.raises(SitesError, match="one of train, test"):
            load_tasks("dev")  # type: ignore[arg-type]


def test_the_files_have_the_placeholder_and_survive_a_round() -> None:
    for split in SPLITS:
        lines = (Path(package.__file__).parent / f"{split}.jsonl").read_bytes().splitlines()
        for line in lines:
            task = msgspec.json.decode(line, type=SiteTask)
            assert task.website.startswith("{sites}/")
            assert msgspec.json.decode(msgspec.json.encode(task)) == msgspec.json.decode(line)


def test_an_action_that_cannot_be_is_rejected() -> None:
    for written in [
        {},
        {"click": "a", "hover": "b"},
        {"click": True},
        {"type": "a"},
        {"scroll": ("a", "b")},
        {"back": "yes"},
        {"back": False},
    ]:
        with pytest.raises(SitesError):
            action_of(written)  # type: ignore[arg-type]


# Answers that follow from the data, worked out here a second time.


def answer(task_id: str) -> str:
    task = next(task for task in TASKS if task.task_id == f"sites-{task_id}")
    assert task.definite_answer
    return task.definite_answer


def test_the_answers_about_the_shop_follow_from_its_catalogue() -> None:
    lamps = ProductQuery(text="desk lamp", rating="4.5", in_stock=True, sort="price")
    assert answer("shop-06") == search_products(lamps)[0].name
    assert answer("shop-08") == str(
        sum(each.price_cents < 3_000 for each in search_products(ProductQuery(text="Nettlebrook")))
    )
    audio = search_products(ProductQuery(category="audio", sort="price-down"))
    assert answer("shop-02").startswith(audio[0].name)
    assert audio[0].price_cents > audio[1].price_cents
    garden = search_products(ProductQuery(category="garden", high=50, sort="rating"))
    assert garden[0].slug == "bypass-pruning-shears"
    assert garden[0].rating > garden[1].rating


def test_the_answers_about_the_cabins_follow_from_their_calendar() -> None:
    free = [
        each.name
        for each in CABINS
        if each.sleeps >= 4 and is_free_for(each, date(2030, 6, 10), date(2030, 6, 13), [])
    ]
    assert free == [answer("booking-03")]
    rest = next(each for each in CABINS if each.slug == "gulls-rest")
    nights = [date(2030, 8, day) for day in range(1, 32)]
    first = next(night for night in nights if is_free(rest, night, []))
    assert f"{first.day} August 2030" == answer("booking-04")
    dogs = [
        each
        for each in CABINS
        if each.dogs and is_free_for(each, date(2030, 8, 12), date(2030, 8, 15), [])
    ]
    assert min(dogs, key=lambda each: each.rate).slug == "plover-hut"
