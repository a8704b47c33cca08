import math
import re
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.webgym.actions.schemas import accepts
from webgym.actions.base import EXCERPT
from webgym.actions.space import (
    ACTIONS,
    TOOLS,
    Action,
    ActionError,
    Click,
    CloseCurrentTab,
    DoubleClick,
    Drag,
    DragBy,
    GiveAnswer,
    GoBack,
    Hover,
    HoverAndScroll,
    Mark,
    Navigate,
    Point,
    PressKeys,
    RightClick,
    Scroll,
    Select,
    Slide,
    SwitchToTab,
    TabThenEnter,
    ToolCall,
    Type,
    Upload,
    Viewport,
    Wait,
)
from webgym.actions.tool_calls import actions_of, call_schema, read_action, tool_schema
from webgym.browser.contract.commands import (
    Back,
    ClickCoords,
    ClickId,
    CloseTab,
    Command,
    DragCoords,
    DragId,
    FillCoords,
    FillId,
    HoverAndScrollCoords,
    HoverCoords,
    HoverId,
    InteractionMode,
    Keypress,
    PageDown,
    PageUp,
    ScrollId,
    SelectOption,
    SelectOptionCoords,
    Sleep,
    SlideCoords,
    SlideId,
    SwitchTab,
    TabAndEnter,
    UploadCoords,
    UploadFile,
    UploadId,
    VisitPage,
    read_command,
)

MODES: tuple[InteractionMode, ...] = get_args(InteractionMode)
VIEWPORT = Viewport(1280, 768)
MIDDLE, TWELVE = Point(500, 500), Mark(12)
COORDINATES: InteractionMode = "coordinates"
MARKS: InteractionMode = "set_of_marks"

# The whole action space: what the model writes, what people read, what the browser does.
TABLE: list[tuple[InteractionMode, Action, dict[str, object], str, Command | None]] = [
    (
        COORDINATES,
        Click(MIDDLE),
        {"action": "left_click", "coordinate": [500, 500]},
        "click on (500, 500)",
        ClickCoords(640, 384),
    ),
    (MARKS, Click(TWELVE), {"action": "click", "element_id": 12}, "click on [12]", ClickId(12)),
    (
        COORDINATES,
        Hover(MIDDLE),
        {"action": "hover", "coordinate": [500, 500]},
        "hover over (500, 500)",
        HoverCoords(640, 384),
    ),
    (MARKS, Hover(TWELVE), {"action": "hover", "element_id": 12}, "hover over [12]", HoverId(12)),
    (
        COORDINATES,
        Type(MIDDLE, "tea"),
        {"action": "type", "coordinate": [500, 500], "text": "tea"},
        'type "tea" into (500, 500)',
        FillCoords(640, 384, "tea", press_enter=True, delete_existing=True),
    ),
    (
        MARKS,
        Type(TWELVE, "tea"),
        {"action": "type", "element_id": 12, "text": "tea"},
        'type "tea" into [12]',
        FillId(12, "tea", press_enter=True, delete_existing=True),
    ),
    (
        COORDINATES,
        HoverAndScroll(MIDDLE, "left"),
        {"action": "hover_and_scroll", "coordinate": [500, 500], "direction": "left"},
        "scroll left over (500, 500)",
        HoverAndScrollCoords(640, 384, "left"),
    ),
    (
        MARKS,
        HoverAndScroll(TWELVE, "down"),
        {"action": "hover_and_scroll", "element_id": 12, "direction": "down"},
        "scroll down over [12]",
        ScrollId(12, "down"),
    ),
    (
        MARKS,
        Select(TWELVE),
        {"action": "select", "element_id": 12},
        "select [12]",
        SelectOption(12),
    ),
    (
        MARKS,
        Select(TWELVE, "Mint"),
        {"action": "select", "element_id": 12, "option": "Mint"},
        'select "Mint" in [12]',
        SelectOption(12, "Mint"),
    ),
    (
        COORDINATES,
        Select(MIDDLE, "Mint"),
        {"action": "select", "coordinate": [500, 500], "option": "Mint"},
        'select "Mint" in (500, 500)',
        SelectOptionCoords(640, 384, "Mint"),
    ),
    (
        COORDINATES,
        Type(MIDDLE, "tea", press_enter=False),
        {"action": "type", "coordinate": [500, 500], "text": "tea", "press_enter": False},
        'type "tea" into (500, 500) without Enter',
        FillCoords(640, 384, "tea", press_enter=False, delete_existing=True),
    ),
    (
        COORDINATES,
        DoubleClick(MIDDLE),
        {"action": "double_click", "coordinate": [500, 500]},
        "double-click on (500, 500)",
        ClickCoords(640, 384, clicks=2),
    ),
    (
        MARKS,
        DoubleClick(TWELVE),
        {"action": "double_click", "element_id": 12},
        "double-click on [12]",
        ClickId(12, clicks=2),
    ),
    (
        COORDINATES,
        RightClick(MIDDLE),
        {"action": "right_click", "coordinate": [500, 500]},
        "right-click on (500, 500)",
        ClickCoords(640, 384, "right"),
    ),
    (
        MARKS,
        RightClick(TWELVE),
        {"action": "right_click", "element_id": 12},
        "right-click on [12]",
        ClickId(12, "right"),
    ),
    (
        COORDINATES,
        Drag(MIDDLE, Point(0, 1000)),
        {"action": "drag", "coordinate": [500, 500], "to_coordinate": [0, 1000]},
        "drag (500, 500) to (0, 1000)",
        DragCoords(640, 384, 0, 767),
    ),
    (
        MARKS,
        Drag(TWELVE, Mark(3)),
        {"action": "drag", "element_id": 12, "to_element_id": 3},
        "drag [12] to [3]",
        DragId(12, 3),
    ),
    (
        MARKS,
        DragBy(TWELVE, (250, -500)),
        {"action": "drag_by", "element_id": 12, "offset": [250, -500]},
        "drag [12] by (250, -500)",
        DragId(12, dx=320, dy=-384),
    ),
    (
        COORDINATES,
        Slide(MIDDLE, 2.5),
        {"action": "slide", "coordinate": [500, 500], "value": 2.5},
        "slide (500, 500) to 2.5",
        SlideCoords(640, 384, 2.5),
    ),
    (
        MARKS,
        Slide(TWELVE, 7),
        {"action": "slide", "element_id": 12, "value": 7},
        "slide [12] to 7",
        SlideId(12, 7),
    ),
    (
        COORDINATES,
        Upload(MIDDLE, "cv.pdf"),
        {"action": "upload", "coordinate": [500, 500], "file": "cv.pdf"},
        'upload "cv.pdf" at (500, 500)',
        UploadCoords(640, 384, (UploadFile("cv.pdf"),)),
    ),
    (
        MARKS,
        Upload(TWELVE, "cv.pdf"),
        {"action": "upload", "element_id": 12, "file": "cv.pdf"},
        'upload "cv.pdf" at [12]',
        UploadId(12, (UploadFile("cv.pdf"),)),
    ),
]
COMMON: list[tuple[Action, dict[str, object], str, Command | None]] = [
    (
        Scroll("down"),
        {"action": "scroll", "direction": "down"},
        "scroll down",
        PageDown(full_page=True),
    ),
    (Scroll("up"), {"action": "scroll", "direction": "up"}, "scroll up", PageUp(full_page=True)),
    (
        PressKeys(("Control", "a")),
        {"action": "keypress", "keys": ["Control", "a"]},
        "press Control+a",
        Keypress(("Control", "a")),
    ),
    (SwitchToTab(2), {"action": "switch_tab", "tab": 2}, "switch to tab 2", SwitchTab(2)),
    (CloseCurrentTab(), {"action": "close_tab"}, "close the tab", CloseTab()),
    (Wait(2.5), {"action": "wait", "time": 2.5}, "wait for 2.5 s", Sleep(2.5)),
    (GoBack(), {"action": "go_back"}, "go back", Back()),
    (TabThenEnter(), {"action": "tab_and_enter"}, "press Tab, then Enter", TabAndEnter()),
    (
        Navigate("https://example.org/a"),
        {"action": "navigate", "url": "https://example.org/a"},
        "open https://example.org/a",
        VisitPage("https://example.org/a"),
    ),
    (GiveAnswer("42"), {"action": "answer", "text": "42"}, 'answer "42"', None),
]
TABLE += [(mode, *row) for mode in MODES for row in COMMON]

_numbers = st.floats(0, 1000) | st.integers(0, 1000).map(float)
_points = st.builds(Point, _numbers, _numbers)
_marks = st.builds(Mark, st.integers(1, 10**9))
_texts = st.text(st.characters(codec="utf-8"), max_size=200)
_directions = st.sampled_from(["up", "down", "left", "right"])
_anywhere = st.one_of(
    st.builds(Scroll, st.sampled_from(["up", "down"])),
    st.builds(
        PressKeys,
        st.lists(_texts.filter(lambda k: 0 < len(k) <= 32), min_size=1, max_size=8).map(tuple),
    ),
    st.builds(Wait, st.floats(0, 60)),
    st.just(GoBack()),
    st.just(TabThenEnter()),
    st.builds(Navigate, _texts.map(lambda path: f"https://example.org/{path}")),
    st.builds(GiveAnswer, _texts),
)


def _aimed(
    targets: st.SearchStrategy[Point] | st.SearchStrategy[Mark],
) -> st.SearchStrategy[Action]:
    return st.one_of(
        st.builds(Click, targets),
        st.builds(DoubleClick, targets),
        st.builds(Drag, targets, targets),
        st.builds(Slide, targets, st.floats(-1e9, 1e9)),
        st.builds(Hover, targets),
        st.builds(Type, targets, _texts, st.none() | st.booleans()),
        st.builds(HoverAndScroll, targets, _directions),
    )


with_coordinates = _anywhere | _aimed(_points)
with_marks = _anywhere | _aimed(_marks) | st.builds(Select, _marks, _texts | st.none())


def test_an_action_is_one_call_one_text_and_one_command() -> None:
    for mode, action, arguments, text, command in TABLE:
        assert action.write(mode) == ToolCall(TOOLS[mode], arguments)
        assert read_action(mode, TOOLS[mode], arguments) == action
        assert str(action) == text
        assert action.to_command(VIEWPORT) == command
        assert action.arguments == {name: arguments[name] for name in arguments if name != "action"}


def test_the_table_has_every_action_of_both_modes() -> None:
    listed = {(mode, type(action)) for mode, action, *_ in TABLE}
    assert listed == {(mode, kind) for mode in MODES for kind in actions_of(mode).values()}


def test_the_keys_are_those_of_trajectories() -> None:
    assert list(ACTIONS) == [
        "click",
        "hover",
        "type",
        "scroll",
        "hover_and_scroll",
        "select",
        "keypress",
        "double_click",
        "right_click",
        "drag",
        "drag_by",
        "slide",
        "upload",
        "switch_tab",
        "close_tab",
        "wait",
        "goback",
        "tabandenter",
        "navigate",
        "answer",
    ]


@given(with_coordinates)
def test_with_coordinates_what_was_written_is_read_back(action: Action) -> None:
    _check_round_trip(COORDINATES, action)


@given(with_marks)
def test_with_marks_what_was_written_is_read_back(action: Action) -> None:
    _check_round_trip(MARKS, action)


def _check_round_trip(mode: InteractionMode, action: Action) -> None:
    call = action.write(mode)
    sent = re.fullmatch(r"<tool_call>\n(.*)\n</tool_call>", call.text, re.DOTALL)
    assert sent
    received = msgspec.json.decode(sent[1], type=ToolCall)
    assert read_action(mode, received.name, received.arguments) == action
    assert accepts(call_schema(mode), msgspec.json.decode(sent[1]))
    command = action.to_command(VIEWPORT)
    if command is not None:
        body = {command.command: msgspec.to_builtins(command)}
        assert read_command(body) == command


@given(_points, st.integers(1, 5_000), st.integers(1, 5_000))
def test_every_point_is_a_pixel_of_the_viewport(point: Point, width: int, height: int) -> None:
    x, y = point.pixel(Viewport(width, height))
    assert 0 <= x < width
    assert 0 <= y < height


def test_points_are_scaled_by_the_viewport_that_was_stored() -> None:
    assert Click(Point(250, 1000)).to_command(Viewport(800, 600)) == ClickCoords(200, 599)


def test_a_wrong_call_is_told_what_is_wrong_with_it() -> None:
    cases: list[tuple[object, str]] = [
        ({}, "`action` is missing: it is one of left_click, hover, type"),
        ({"action": None}, "`action` is missing"),
        ({"action": "click"}, "there is no action 'click': did you mean left_click?"),
        ({"action": "fly"}, "there is no action 'fly': there are left_click"),
        ({"action": ["left_click"]}, r"there is no action \['left_click'\]"),
        (
            {"action": "select", "element_id": 1},
            "`select` has no argument 'element_id'; it takes `coordinate`",
        ),
        ({"action": "select", "coordinate": [1, 2]}, "`select` needs `option`"),
        ({"action": "drag", "coordinate": [1, 2]}, "`drag` needs `to_coordinate`"),
        (
            {"action": "drag_by", "offset": [1, 2]},
            "there is no action 'drag_by': did you mean drag",
        ),
        ({"action": "left_click"}, "`left_click` needs `coordinate`"),
        ({"action": "left_click", "coordinate": None}, "`left_click` needs `coordinate`"),
        (
            {"action": "left_click", "element_id": 3},
            "`left_click` has no argument 'element_id'; it takes `coordinate` ",
        ),
        (
            {"action": "go_back", "text": "x"},
            "`go_back` has no argument 'text'; it takes no arguments",
        ),
        ({"action": "type", "coordinate": [1, 2]}, "`type` needs `text`"),
        ({"action": "type", "coordinate": [1, 2], "text": 5}, "`text` must be a text; it was 5"),
        ({"action": "answer", "text": "\ud800"}, "`text` must be a text"),
        ({"action": "answer", "text": "x" * 100_001}, "`text` must be a text; it was 'xxx"),
        ({"action": "scroll", "direction": "left"}, "`direction` must be up or down; it was"),
        ({"action": "wait", "time": 61}, "`time` must be seconds, from 0 to 60; it was 61"),
        ({"action": "wait", "time": -1}, "`time` must be seconds"),
        ({"action": "wait", "time": "2"}, "`time` must be seconds"),
        ({"action": "keypress", "keys": []}, "`keys` must be a list of keys"),
        ({"action": "keypress", "keys": "Enter"}, "`keys` must be a list of keys"),
        ({"action": "keypress", "keys": ["a"] * 9}, "`keys` must be a list of keys"),
        ({"action": "navigate", "url": "example.org"}, "`url` must be a whole address, such as"),
        ({"action": "navigate", "url": "file:///etc/passwd"}, "`url` must be a whole address"),
        ({"action": "navigate", "url": "javascript:alert(1)"}, "`url` must be a whole address"),
        ("left_click", "`arguments` must be an object; it was 'left_click'"),
        (None, "`arguments` must be an object; it was None"),
    ]
    for arguments, said in cases:
        with pytest.raises(ActionError, match=f"^{said}"):
            read_action(COORDINATES, "computer_use", arguments)


def test_a_coordinate_out_of_range_or_of_another_shape_is_refused() -> None:
    cases: list[object] = [
        *([1001, 1], [-1, 1], [1], [1, 2, 3], [math.nan, 1], [math.inf, 1], ["1", "2"]),
        *([True, False], 10**400, "[500, 500]", {"x": 1, "y": 2}, [[1, 2]], [None, 1]),
    ]
    for coordinate in cases:
        with pytest.raises(
            ActionError, match=r"^`coordinate` must be \[x, y\], two numbers from 0 to 1000"
        ):
            read_action(COORDINATES, "computer_use", {"action": "hover", "coordinate": coordinate})


def test_a_mark_that_no_element_can_have_is_refused() -> None:
    cases: list[object] = [0, -3, 1.5, "12", True, [12], 10**10]
    for element_id in cases:
        with pytest.raises(ActionError, match="^`element_id` must be the number of an element"):
            read_action(MARKS, "web_interaction", {"action": "click", "element_id": element_id})


def test_an_option_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(ActionError, match="^`option` must be the text of an option"):
        read_action(MARKS, "web_interaction", {"action": "select", "element_id": 1, "option": 2})


def test_the_tool_of_the_other_mode_is_refused() -> None:
    with pytest.raises(ActionError, match="^there is no tool 'web_interaction': use computer_use$"):
        read_action(COORDINATES, "web_interaction", {"action": "go_back"})


def test_messages_stay_short_whatever_the_model_wrote() -> None:
    for arguments in (
        {"action": "x" * 10_000},
        {"action": "go_back", "y\n" * 10_000: 1},
        {"action": "answer", "text": ["z"] * 10_000},
    ):
        with pytest.raises(ActionError) as caught:
            read_action(COORDINATES, "computer_use", arguments)
        assert len(str(caught.value)) < 3 * EXCERPT + 100
        assert "\n" not in str(caught.value)


@given(
    st.dictionaries(
        st.text(max_size=8), st.none() | st.text(max_size=8) | st.integers(), max_size=4
    )
)
def test_no_call_breaks_the_reader(arguments: dict[str, object]) -> None:
    with pytest.raises(ActionError):
        read_action(COORDINATES, "computer_use", {"action": "left_click"} | arguments)


def test_an_action_is_not_written_in_a_mode_that_lacks_it() -> None:
    for action, mode in (
        (Select(TWELVE), COORDINATES),
        (Click(TWELVE), COORDINATES),
        (Click(MIDDLE), MARKS),
    ):
        with pytest.raises(ActionError, match="cannot be written in the mode"):
            action.write(mode)


def test_long_texts_are_cut_for_people() -> None:
    shown = str(Type(TWELVE, "line\n" * 100))
    assert len(shown) < EXCERPT + 30
    assert "\n" not in shown


def test_the_tool_of_a_mode_describes_all_its_actions() -> None:
    for mode in MODES:
        function = msgspec.convert(tool_schema(mode)["function"], dict[str, object])
        parameters = msgspec.convert(function["parameters"], dict[str, object])
        properties = msgspec.convert(parameters["properties"], dict[str, dict[str, object]])
        verbs = list(actions_of(mode))
        assert function["name"] == TOOLS[mode]
        assert properties["action"]["enum"] == verbs
        for verb, kind in actions_of(mode).items():
            line = rf"^- {verb}\(.*\): {re.escape(kind.meaning)}$"
            assert re.search(line, str(function["description"]), re.MULTILINE)
        for row_mode, _, arguments, *_ in TABLE:
            if row_mode == mode:
                assert set(arguments) <= set(properties)
                assert accepts(parameters, arguments)


def test_signatures_in_the_prompt_are_those_that_users_know() -> None:
    described = str(
        msgspec.convert(tool_schema(COORDINATES)["function"], dict[str, object])["description"]
    )
    for signature in (
        "left_click(coordinate)",
        "type(coordinate, text, press_enter?)",
        "scroll(direction)",
        "wait(time)",
        "go_back()",
        "navigate(url)",
        "answer(text)",
    ):
        assert f"- {signature}: " in described
    marked = str(msgspec.convert(tool_schema(MARKS)["function"], dict[str, object])["description"])
    for signature in (
        "click(element_id)",
        "type(element_id, text, press_enter?)",
        "hover(element_id)",
    ):
        assert f"- {signature}: " in marked
    assert "select(element_id, option?)" in marked


def test_the_exact_schema_takes_what_is_read_and_refuses_what_is_not() -> None:
    for mode in MODES:
        schema, tool = call_schema(mode), TOOLS[mode]
        for row_mode, _, arguments, *_ in TABLE:
            fits = row_mode == mode or any(arguments == common for _, common, *_ in COMMON)
            assert accepts(schema, {"name": tool, "arguments": arguments}) == fits
        for wrong in (
            {},
            {"action": "fly"},
            {"action": "go_back", "x": 1},
            {"action": "scroll", "direction": "left"},
        ):
            assert not accepts(schema, {"name": tool, "arguments": wrong})
            with pytest.raises(ActionError):
                read_action(mode, tool, wrong)
