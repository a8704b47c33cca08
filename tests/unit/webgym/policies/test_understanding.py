import pytest

from webgym.policies.heuristic.assignment import Assignment
from webgym.policies.heuristic.comparing import Superlative
from webgym.policies.heuristic.details import Details
from webgym.policies.heuristic.passages import Passage
from webgym.policies.heuristic.scoring import Weights, coverage, fit
from webgym.policies.heuristic.words import kin, stem, stems

ORDER = (
    "Order two Oak Trays. Send them to Lea Moss, Mill Lane 4, 2080 Brae, Ness Isles; email "
    "lea@example.org, phone 0441 20 30, with the code MOSS20."
)


@pytest.mark.parametrize(
    ("one", "two"), [("litres", "litre"), ("saved", "save"), ("cities", "city"), ("paid", "pay")]
)
def test_forms_of_a_word_have_one_stem(one: str, two: str) -> None:
    assert stem(one) == stem(two)


def test_small_words_carry_no_meaning_and_others_mean_the_same() -> None:
    assert stems("What is the price of it?") == [stem("price")]
    assert stem("price") in kin(stem("cost"))


def test_names_are_what_has_capitals_within_a_sentence() -> None:
    assert Assignment("Who built the Great Bridge of Brae, and when?").names == (
        "Great Bridge of Brae",
    )
    assert Assignment("Put the Oak Tray’s lid aside. Then open it.").names == ("Oak Tray",)  # noqa: RUF001


def test_a_question_is_told_from_something_to_do() -> None:
    asks, acts, both = map(
        Assignment,
        ("How high is it?", "Ring the bell.", "Ring the bell and tell how loud it was."),
    )
    assert (asks.is_question, asks.wants_answer) == (True, True)
    assert (acts.is_question, acts.wants_answer) == (False, False)
    assert (both.is_question, both.wants_answer) == (False, True)


def test_what_must_not_be_done_is_known() -> None:
    assert Assignment("Fill the cart. Do not order.").forbidden == {"order"}


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("Full name", "Lea Moss"),
        ("First name", "Lea"),
        ("Last name *", "Moss"),
        ("E-mail address", "lea@example.org"),
        ("Phone", "0441 20 30"),
        ("Street and number", "Mill Lane 4"),
        ("Postcode", "2080"),
        ("City", "Brae"),
        ("Country", "Ness Isles"),
        ("Discount code", "MOSS20"),
        ("Quantity", "2"),
        ("Favourite colour", ""),
    ],
)
def test_a_field_gets_what_its_label_asks_for(label: str, value: str) -> None:
    assert Details.of(ORDER).value_for(label, "Oak Tray | A shop") == value


@pytest.mark.parametrize(
    ("task", "days"),
    [
        ("Stay from 6 to 10 June 2030.", ("2030-06-06", "2030-06-10")),
        ("Stay from 30 June to 2 July 2030.", ("2030-06-30", "2030-07-02")),
        ("Stay for three nights from 30 June 2030.", ("2030-06-30", "2030-07-03")),
        ("Stay from 31 to 31 June 2030.", ("", "")),
        ("Stay for a while.", ("", "")),
    ],
)
def test_days_are_written_as_forms_take_them(task: str, days: tuple[str, str]) -> None:
    details = Details.of(task)
    assert (details.first_day, details.last_day) == days


def test_how_many_is_known_by_what_is_counted_and_measures_are_no_counts() -> None:
    details = Details.of("A knife of 21 cm and a table for four guests")
    assert (details.count_named("Guests"), details.count_named("Length in cm")) == ("4", "")


def test_rare_words_weigh_more() -> None:
    weights = Weights([["lamp", "red"], ["lamp"], ["lamp"]])
    assert weights.of("red") > weights.of("lamp")
    have_red, have_lamp = {"red": 1.0}, {"lamp": 1.0}
    assert coverage(["lamp", "red"], have_red, weights) > coverage(
        ["lamp", "red"], have_lamp, weights
    )


def test_a_name_fits_by_the_share_of_its_words() -> None:
    wish = stems("Put the oak tray into the cart")
    assert fit("Oak Tray", wish) == 1
    assert fit("Oak Table", wish) == pytest.approx(0.5)
    assert fit("", wish) == 0


def cards(*texts: str) -> list[Passage]:
    return [Passage(text, "", "entry", 1) for text in texts]


def test_the_cheapest_is_chosen_of_those_that_are_allowed() -> None:
    shown = cards(
        "Bee Lamp Rated 4.1 of 5 $20 In stock",
        "Cee Lamp Rated 4.8 of 5 $25 Out of stock",
        "Dee Lamp Rated 4.6 of 5 $1,200.50 In stock",
        "Eff Lamp Rated 4.7 of 5 $30 In stock",
    )
    wish = Superlative.of("Which is the cheapest lamp in stock and rated 4.5 or better?")
    assert wish is not None
    chosen = wish.choose(shown)
    assert chosen is not None
    assert chosen.text.startswith("Eff Lamp")


def test_the_second_most_is_chosen_too() -> None:
    wish = Superlative.of("Which is the second most expensive?")
    assert wish is not None
    chosen = wish.choose(cards("A $1", "B $3", "C $2"))
    assert chosen is not None
    assert chosen.text == "C $2"


def test_a_task_that_compares_nothing_has_no_superlative() -> None:
    assert Superlative.of("Ring the bell.") is None
