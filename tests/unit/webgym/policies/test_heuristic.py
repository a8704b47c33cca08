import msgspec
import pytest

from tests.unit.webgym.policies.pages import KETTLE, element, page, seen
from webgym.context.page_text import PageElement, PageOption, PageText
from webgym.environment.actions import (
    Action,
    Answer,
    Click,
    GoBack,
    Mark,
    Point,
    Scroll,
    Select,
    Type,
    Wait,
)
from webgym.policies.heuristic import HeuristicPolicy
from webgym.policies.heuristic.policy import BLOCKED

SEARCH = element("searchbox", "Search the shop", "editable", number=2)


def choice(name: str, *options: str, number: int = 30) -> PageElement:
    listed = tuple(
        PageOption(text, number + place, place == 1) for place, text in enumerate(options, 1)
    )
    return msgspec.structs.replace(
        element("combobox", name, "collapsed", number=number), options=listed
    )


def play(task: str, *pages: PageText) -> list[Action]:
    """What is done on one page after the other."""
    policy = HeuristicPolicy()
    return [policy.decide(seen(task, each, step)).action for step, each in enumerate(pages, 1)]


def said(action: Action) -> str:
    assert isinstance(action, Answer)
    return action.text


def test_a_question_is_answered_with_the_row_that_has_its_words() -> None:
    shown = page(text=KETTLE, title="Copper Kettle")
    [action] = play("How many litres does the Copper Kettle hold?", shown)
    assert said(action) == "Capacity: 1.7 litres"


def test_a_question_in_two_parts_is_answered_with_both() -> None:
    text = 'text "Things can be sent back within 45 days. Postage of a return is $4."'
    [action] = play(
        "Within how many days can things be sent back, and what is the postage of a return?",
        page(text=text, title="Returns"),
    )
    assert "45" in said(action)
    assert "$4" in said(action)


def test_the_site_is_searched_for_the_names_of_the_task() -> None:
    [action] = play("How heavy is the Copper Kettle?", page(SEARCH, element("link", "Help")))
    assert action == Type(Mark(2), "Copper Kettle")


def test_a_link_of_that_very_name_is_followed_rather_than_searched_for() -> None:
    link = element("link", "Copper Kettle", number=8, url="/kettle")
    [action] = play("How heavy is the Copper Kettle?", page(SEARCH, link))
    assert action == Click(Mark(8))


def test_of_links_that_fit_alike_the_one_in_fitting_company_is_followed() -> None:
    text = """\
list
  listitem
    link "Brae River"
    text ", a river"
  listitem
    link "MV Brae"
    text ", a ferry of old"
"""
    links = [
        element("link", "Brae River", number=3, url="/river"),
        element("link", "MV Brae", number=4, url="/ship"),
    ]
    [action] = play("When was the ferry called Brae built?", page(*links, text=text))
    assert action == Click(Mark(4))


def test_pages_that_were_seen_are_not_gone_to_again() -> None:
    home = element("link", "Copper Kettle", number=3, url="/")
    other = element("link", "Other things", number=4, url="/other")
    [action] = play("How heavy is the Copper Kettle?", page(home, other))
    assert action == Click(Mark(4))


def test_a_form_is_filled_in_with_what_the_task_gives() -> None:
    given = {"First name": "Lea", "Last name": "Moss", "Email": "lea@example.org"}
    held = dict.fromkeys(given, "")
    policy = HeuristicPolicy()
    for step in range(1, 4):
        fields = [
            msgspec.structs.replace(
                element("textbox", name, "editable", number=number), value=value
            )
            for number, (name, value) in enumerate(held.items(), 1)
        ]
        task = "Book a room: Lea Moss, lea@example.org."
        action = policy.decide(seen(task, page(*fields), step)).action
        assert isinstance(action, Type)
        assert isinstance(action.target, Mark)
        held[list(held)[action.target.id - 1]] = action.text
    assert held == given


def test_a_field_that_holds_it_already_is_left_alone() -> None:
    field = msgspec.structs.replace(
        element("textbox", "Email", "editable"), value="lea@example.org"
    )
    assert play("Subscribe lea@example.org.", page(field)) == [Answer("Done.")]


def test_what_the_task_names_is_chosen_ticked_and_pressed() -> None:
    size = choice("Size", "Small", "Large")
    gift = element("checkbox", "Wrap as a gift", "unchecked", number=5)
    button = element("button", "Add to cart", number=6)
    chosen = msgspec.structs.replace(
        size, options=(PageOption("Small", 31), PageOption("Large", 32, selected=True))
    )
    ticked = msgspec.structs.replace(gift, flags=("checked",))
    taken = play(
        "Put the large tray into the cart, wrap as a gift.",
        page(size, gift, button),
        page(chosen, gift, button),
        page(chosen, ticked, button),
        page(chosen, ticked, button),
    )
    assert set(map(str, taken)) == {
        "select [32]",
        "click on [5]",
        "click on [6]",
        'answer "Done."',
    }
    assert taken[-2:] == [Click(Mark(6)), Answer("Done.")]


def test_what_was_not_to_be_done_is_not_done() -> None:
    shown = page(element("button", "Place order"), element("button", "Remove the tray"))
    assert play("Look at the tray in the order form. Do not order.", shown) == [Answer("Done.")]


def test_the_order_of_a_list_is_that_of_what_is_compared() -> None:
    sort = choice("Sort by", "Best match", "Price: low to high", "Price: high to low")
    [action] = play("What is the most expensive lamp?", page(sort, text='text "Lamps"'))
    assert action == Select(Mark(33))


def test_with_coordinates_an_intent_takes_as_many_actions_as_it_needs() -> None:
    far = element("button", "Ring the bell", "out of view", point=(500, 1500))
    near = element("button", "Ring the bell", point=(500, 600))
    policy = HeuristicPolicy()
    taken = [
        policy.decide(seen("Ring the bell.", page(shown), step, mode="coordinates")).action
        for step, shown in enumerate((far, near, near), 1)
    ]
    assert taken == [Scroll("down"), Click(Point(500, 600)), Answer("Done.")]


def test_a_page_that_wants_a_human_is_called_blocked() -> None:
    shown = page(text='heading "Verify you are human by completing the action below."')
    assert play("What does a ticket cost?", shown) == [Answer(BLOCKED)]


def test_a_page_that_is_loading_is_waited_for() -> None:
    [action] = play("What is the level at Brae?", page(text='status\n  text "Loading…"'))
    assert isinstance(action, Wait)


def test_it_comes_to_an_end_on_pages_that_never_change() -> None:
    links = [element("link", f"Page {number}", number=number) for number in range(1, 40)]
    shown = page(*links, text='text "Loading more…"')
    taken = play("How many lamps are there?", *[shown] * 9)
    assert len(set(map(str, taken))) > 3
    assert isinstance(taken[-1], Answer)


def test_where_nothing_is_left_to_follow_it_goes_back() -> None:
    start = page(element("link", "Lamps", url="/lamps"), url="http://site/a")
    dead_end = page(url="http://site/lamps")
    taken = play("How many lamps are there?", start, dead_end)
    assert taken == [Click(Mark(1)), GoBack()]


@pytest.mark.parametrize("task", ["?", "...", "“”", "1", "a " * 2_000])
def test_any_text_can_be_a_task(task: str) -> None:
    odd = element("button", " "), element("link", "\u200b"), element("textbox", "", "editable")
    assert play(task, page(*odd, text="\n\n?"))


def test_a_chat_without_text_of_the_page_ends() -> None:
    assert isinstance(HeuristicPolicy().decide(seen("Ring.", None)).action, Answer)


def test_the_same_seed_decides_the_same_between_equals() -> None:
    links = [element("link", "Lamp", number=number, url=f"/{number}") for number in range(1, 9)]
    decided = {
        seed: {
            str(HeuristicPolicy(seed).decide(seen("Which lamp?", page(*links))).action)
            for _ in range(3)
        }
        for seed in range(5)
    }
    assert all(len(actions) == 1 for actions in decided.values())


def test_a_box_that_says_all_of_a_clause_is_ticked() -> None:
    shown = page(element("checkbox", "Wrap it as a gift", "unchecked", number=5))
    assert play("Send the tray to the office, as a gift.", shown) == [Click(Mark(5))]


def test_a_page_that_confirms_what_was_to_be_done_ends_the_task() -> None:
    ordering = page(element("button", "Place order", number=4), SEARCH, url="http://site/review")
    done = page(SEARCH, text='text "Your order number is T-12."', url="http://site/order")
    taken = play("Order the Oak Tray. Tell the order number.", ordering, ordering, done)
    assert Click(Mark(4)) in taken
    assert said(taken[-1]) == "Done. Your order number is T-12."
