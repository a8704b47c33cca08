import math
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.webgym.context.rounds import drop_down, element, observation
from webgym.browser.contract.answers import Box, Element, OpenTab, Option, PageInfo
from webgym.browser.contract.commands import InteractionMode
from webgym.context.page_text import escape_tags, page_of, read_page, unescape_tags, write_page
from webgym.context.page_view import (
    AgentObservation,
    PageOption,
    ScrollPosition,
    write_numbers,
)

FEW = settings(max_examples=25)
NASTY = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(
            [
                *("</page>", "<page>", "\n", "\r", '"', "\\", "<", "<\\/page>", "[7] link", " "),
                *("(1, 2) button", "Elements:", "Text:", "\u2028", "\x00", "<|im_end|>", "é"),
                *("</tool_call>", "<think>"),
            ]
        ),
        max_size=12,
    ).map("".join),
)
MAYBE_NASTY = st.none() | NASTY
ANY_NUMBER = st.floats(allow_nan=True, allow_infinity=True)
BOXES = st.builds(Box, ANY_NUMBER, ANY_NUMBER, ANY_NUMBER, ANY_NUMBER)
OPTIONS = st.builds(Option, st.integers(1, 999), NASTY, NASTY, st.booleans())
ELEMENTS = st.builds(
    Element,
    id=st.integers(1, 10**9),
    tag=st.sampled_from(["a", "input", "div"]),
    role=st.sampled_from(["link", "button", "textbox", "x y", "", "ROLE\n"]) | NASTY,
    name=NASTY,
    text=NASTY,
    box=BOXES,
    in_view=st.booleans(),
    type=st.sampled_from([None, "text", "date"]),
    value=MAYBE_NASTY,
    placeholder=MAYBE_NASTY,
    href=MAYBE_NASTY | st.just("http://lamps.example/cart") | st.just("http://[bad"),
    checked=st.none() | st.booleans(),
    expanded=st.none() | st.booleans(),
    disabled=st.booleans(),
    editable=st.booleans(),
    focused=st.booleans(),
    scrollable=st.booleans(),
    options=st.lists(OPTIONS, max_size=3).map(tuple),
)
PAGES = st.builds(
    PageInfo,
    url=NASTY,
    title=NASTY,
    scroll_y=ANY_NUMBER,
    page_height=ANY_NUMBER,
    tabs=st.integers(0, 20),
    status=st.none() | st.integers(100, 599),
    tab_list=st.lists(
        st.builds(OpenTab, st.integers(1, 99), NASTY, NASTY, st.booleans()), max_size=2
    ).map(tuple),
)
SIGHTS = st.builds(
    AgentObservation,
    page=PAGES,
    elements=st.lists(ELEMENTS, max_size=4).map(tuple),
    tree=MAYBE_NASTY,
)
MODES = st.sampled_from(["coordinates", "set_of_marks"])


@FEW
@given(SIGHTS, MODES, st.integers(100, 4_000))
def test_a_written_page_is_read_back_exactly(
    seen: AgentObservation, mode: InteractionMode, characters: int
) -> None:
    written = write_page(seen, mode, characters)
    assert read_page(written) == page_of(seen, mode, characters)


@FEW
@given(SIGHTS, MODES, NASTY, NASTY)
def test_a_page_is_found_inside_a_message_whatever_stands_around_it(
    seen: AgentObservation, mode: InteractionMode, before: str, after: str
) -> None:
    page = write_page(seen, mode)
    message = f"{before}\n<page>\n{page}\n</page>\n{escape_tags(after)}"
    assert read_page(message) == page_of(seen, mode)


@FEW
@given(SIGHTS, MODES)
def test_no_page_can_write_a_tag_or_a_control_token(
    seen: AgentObservation, mode: InteractionMode
) -> None:
    written = write_page(seen, mode)
    for tag in ("<page", "</page", "<|", "<tool_call", "</tool_call", "<think"):
        assert tag not in written


@FEW
@given(NASTY | st.lists(st.sampled_from("<\\/|pa"), max_size=12).map("".join))
def test_escaped_tags_are_unescaped_exactly(text: str) -> None:
    assert unescape_tags(escape_tags(text)) == text


def test_with_marks_a_line_has_the_number_and_options_have_theirs() -> None:
    written = write_page(observation(), "set_of_marks")
    assert written.split("\n") == [
        'Address: "http://lamps.example/1"',
        'Title: "Lamps 1"',
        "Scroll: 0 pixels above the screen, 0 below it",
        "Elements:",
        '[12] button "Add to cart"',
        '[20] combobox "Colour" value="Blue" (collapsed)',
        '  [21] option "Red"',
        '  [22] option "Blue" (selected)',
        "Text:",
        'RootWebArea "Lamps 1"',
        '  [12] button "Add to cart"',
    ]


def test_with_coordinates_a_line_has_the_middle_and_no_number_appears() -> None:
    written = write_page(observation(), "coordinates")
    assert '(512, 340) button "Add to cart"' in written
    assert '  option "Blue" (selected)' in written
    assert "[12]" not in written


def test_the_middle_is_that_of_the_part_on_the_screen() -> None:
    for box, in_view, point in [
        (Box(0, 0, 1280, 768), True, (500, 500)),
        (Box(0, 668, 1280, 1000), True, (500, 935)),
        (Box(-640, 0, 1280, 768), True, (250, 500)),
        (Box(0, 1500, 1280, 72), False, (500, 2000)),
        (Box(0, -804, 1280, 72), False, (500, -1000)),
    ]:
        page = page_of(observation(elements=(element(box=box, in_view=in_view),)), "coordinates")
        assert page.elements[0].point == point
        assert page.elements[0].flags == (() if in_view else ("out of view",))


def test_states_are_flags() -> None:
    states = element(
        checked=False, expanded=True, disabled=True, editable=True, focused=True, scrollable=True
    )
    page = page_of(observation(elements=(states,)), "set_of_marks")
    assert page.elements[0].flags == (
        *("unchecked", "expanded", "disabled"),
        *("focused", "editable", "scrollable"),
    )


def test_scroll_status_and_tabs_are_said_where_they_matter() -> None:
    info = PageInfo("http://x.example/", "x", scroll_y=600.4, page_height=3000, tabs=2, status=404)
    page = read_page(write_page(AgentObservation(page=info), "coordinates"))
    assert page is not None
    assert (page.scroll, page.tabs, page.status) == (ScrollPosition(600, 1632), 2, 404)
    assert "Status" not in write_page(observation(), "coordinates")


def test_addresses_of_the_same_site_are_short() -> None:
    def shown(href: str) -> str | None:
        seen = observation(elements=(element(tag="a", href=href),))
        return page_of(seen, "set_of_marks").elements[0].url

    assert shown("http://lamps.example/cart?a=1#b") == "/cart?a=1#b"
    assert shown("http://lamps.example") == "/"
    assert shown("https://lamps.example/cart") == "https://lamps.example/cart"
    assert shown("http://lamps.example.evil/") == "http://lamps.example.evil/"


def test_a_huge_page_is_bounded_and_says_what_was_left_out() -> None:
    many = tuple(element(number, "n" * 1_000) for number in range(1, 5_000))
    options = tuple(Option(number, "o" * 1_000, "") for number in range(6_000, 9_000))
    seen = observation(elements=(drop_down(), *many), tree=("line\n" * 1_000_000))
    written = write_page(seen, "set_of_marks", 10_000)
    page = read_page(written)
    assert page is not None
    assert len(written) < 11_000
    assert len(page.elements) + page.elements_left_out == 5_000
    assert len(page.text) + page.text_left_out == 5_000_000
    assert page.text.endswith("line")

    long_list = observation(elements=(element(options=options),), tree=None)
    page = read_page(write_page(long_list, "set_of_marks", 100_000))
    assert page is not None
    assert len(page.elements[0].options) == 50
    assert page.elements[0].options_left_out == 2_950
    assert page.elements[0].options[0] == PageOption("o" * 299 + "…", 6_000)


def test_a_box_of_no_size_and_no_number_has_a_middle_all_the_same() -> None:
    page = page_of(
        observation(elements=(element(box=Box(math.nan, 0, math.inf, 0)),)), "coordinates"
    )
    assert page.elements[0].point is not None


SCROLL = "Scroll: 0 pixels above the screen, 0 below it"
BROKEN = [
    f'Address: "\\q"\nTitle: ""\n{SCROLL}',
    f'Address: "\ud800"\nTitle: ""\n{SCROLL}',
    f'Address: ""\nTitle: ""\nStatus: {"9" * 5_000}\n{SCROLL}',
]


def test_a_text_without_a_page_is_read_as_none() -> None:
    for text in ["", "<page>\n</page>", "Address: x", "hello", *BROKEN]:
        assert read_page(text) is None


@FEW
@given(NASTY)
def test_reading_any_text_raises_nothing(text: str) -> None:
    read_page(text)
    read_page(f'<page>\nAddress: "a"\nTitle: "b"\nScroll: 0 pixels above the screen, 0 {text}')


def test_a_huge_text_is_read_in_no_time() -> None:
    started = time.process_time()
    for text in ('Address: "' + "\\" * 1_000_000, "<page>\n" * 200_000, "<" * 1_000_000):
        read_page(text)
        escape_tags(text)
    assert time.process_time() - started < 5


def test_the_numbers_of_elements_are_written_as_ranges() -> None:
    assert write_numbers([element(number) for number in (9, 1, 2, 3, 5, 6)]) == "1 to 3, 5 to 6, 9"
    assert write_numbers(()) == ""
    assert write_numbers([element(2 * number) for number in range(1, 99)]).endswith(", 40, …")
