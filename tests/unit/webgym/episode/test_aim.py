"""Where an action was aimed, as its record keeps it."""

from webgym.actions.space import Click, Drag, DragBy, HoverAndScroll, Mark, Point, Scroll, Select
from webgym.browser.contract.answers import Box, Element, Option, PageInfo
from webgym.context.page_view import AgentObservation
from webgym.episode.episode import record_of

BUTTON = Element(3, "button", "button", "Buy", "Buy", Box(100.0, 50.0, 40.0, 20.0))
LIST = Element(
    8,
    "select",
    "combobox",
    "Guests",
    "2",
    Box(10.0, 300.0, 200.0, 41.0),
    options=(Option(18, "1", "1"), Option(19, "2", "2", selected=True)),
)
OBSERVATION = AgentObservation(
    page=PageInfo("http://shop.test/", "Shop", 1000, 500), elements=(BUTTON, LIST)
)


def test_an_element_is_aimed_at_in_its_middle() -> None:
    record = record_of(Click(Mark(3)), OBSERVATION)
    assert (record.pixel, record.box) == ((120, 60), BUTTON.box)


def test_a_list_is_aimed_at_in_its_middle() -> None:
    record = record_of(Select(Mark(8), "2"), OBSERVATION)
    assert (record.pixel, record.box) == ((110, 320), LIST.box)


def test_an_option_that_is_chosen_by_its_own_number_is_aimed_at_where_its_list_is() -> None:
    record = record_of(Select(Mark(19)), OBSERVATION)
    assert (record.pixel, record.box) == ((110, 320), LIST.box)


def test_a_point_is_aimed_at_by_its_pixel_and_has_no_box() -> None:
    record = record_of(HoverAndScroll(Point(500, 1000), "down"), OBSERVATION)
    assert (record.pixel, record.box) == ((500, 499), None)


def test_a_number_that_nothing_has_is_aimed_nowhere() -> None:
    record = record_of(Click(Mark(77)), OBSERVATION)
    assert (record.pixel, record.box) == (None, None)


def test_a_drag_also_has_the_pixel_where_it_ends() -> None:
    assert record_of(Drag(Mark(3), Mark(8)), OBSERVATION).to_pixel == (110, 320)
    assert record_of(DragBy(Mark(3), (100, -100)), OBSERVATION).to_pixel == (220, 10)
    assert record_of(Drag(Point(1, 1), Point(500, 1000)), OBSERVATION).to_pixel == (500, 499)


def test_an_action_without_a_target_is_aimed_nowhere() -> None:
    record = record_of(Scroll("down"), OBSERVATION)
    assert (record.pixel, record.box) == (None, None)
