"""The formats of vision models: replies as their public descriptions write them."""

import msgspec
import pytest

from tests.unit.webgym.context.rounds import observation, past_round, task
from webgym.actions.space import (
    Action,
    Click,
    DoubleClick,
    Drag,
    GiveAnswer,
    GoBack,
    Hover,
    HoverAndScroll,
    Point,
    PressKeys,
    RightClick,
    Type,
    Wait,
)
from webgym.browser.contract.answers import PageInfo
from webgym.context.formats import find_format
from webgym.context.page_view import Round
from webgym.context.settings import ContextSettings
from webgym.context.vision.screens import resized
from webgym.trajectory.records import ActionRecord

PAGE = observation(page=PageInfo("http://lamps.example/1", "Lamps", width=1280, height=768))
MIDDLE = Point(500, 500)


def clicked(url: str = "http://lamps.example/1") -> Round:
    """A round that clicked in the middle of the screen."""
    before = past_round(1, seen=observation(page=PageInfo(url, "Lamps")))
    record = ActionRecord(key="click", arguments={"coordinate": [500, 500]}, text="click")
    return Round(before.observation, msgspec.structs.replace(before.step, action=record))


def read(name: str, text: str, past: tuple[Round, ...] = ()) -> tuple[Action | None, str]:
    settings = ContextSettings(prompt_version=name)
    reply = find_format(name).read_reply(text, settings, past, PAGE)
    return reply.action, reply.failure or ""


def call(arguments: str) -> str:
    return (
        'Action: Go on.\n<tool_call>\n{"name": "computer_use", "arguments": '
        f"{arguments}}}\n</tool_call>"
    )


QWEN: list[tuple[str, Action]] = [
    ('{"action": "left_click", "coordinate": [500, 500]}', Click(MIDDLE)),
    ('{"action": "double_click", "coordinate": [500, 500]}', DoubleClick(MIDDLE)),
    ('{"action": "right_click", "coordinate": [500, 500]}', RightClick(MIDDLE)),
    ('{"action": "mouse_move", "coordinate": [500, 500]}', Hover(MIDDLE)),
    ('{"action": "left_click"}', Click(MIDDLE)),
    ('{"action": "left_click_drag", "coordinate": [0, 1000]}', Drag(MIDDLE, Point(0, 1000))),
    ('{"action": "type", "text": "a lamp"}', Type(MIDDLE, "a lamp", press_enter=False)),
    ('{"action": "type", "text": "a lamp\\n"}', Type(MIDDLE, "a lamp")),
    ('{"action": "key", "keys": ["ctrl", "a"]}', PressKeys(("ctrl", "a"))),
    ('{"action": "scroll", "pixels": -300}', HoverAndScroll(MIDDLE, "down")),
    ('{"action": "scroll", "coordinate": [0, 0], "pixels": 5}', HoverAndScroll(Point(0, 0), "up")),
    ('{"action": "hscroll", "pixels": 9}', HoverAndScroll(MIDDLE, "right")),
    ('{"action": "wait", "time": 2}', Wait(2)),
    ('{"action": "answer", "text": "24 EUR"}', GiveAnswer("24 EUR")),
    ('{"action": "terminate", "status": "success"}', GiveAnswer("The task is done.")),
]
UI_TARS: list[tuple[str, Action]] = [
    ("click(start_box='(500,500)')", Click(MIDDLE)),
    ("click(start_box='<|box_start|>(500,500)<|box_end|>')", Click(MIDDLE)),
    ("click(point='<point>500 500</point>')", Click(MIDDLE)),
    ("click(start_box='[400, 450, 600, 550]')", Click(MIDDLE)),
    ("left_double(start_box='(500,500)')", DoubleClick(MIDDLE)),
    ("right_single(start_box='(500,500)')", RightClick(MIDDLE)),
    ("drag(start_box='(500,500)', end_box='(0,1000)')", Drag(MIDDLE, Point(0, 1000))),
    ("hotkey(key='ctrl c')", PressKeys(("ctrl", "c"))),
    (r"type(content='it\'s a \"lamp\"')", Type(MIDDLE, 'it\'s a "lamp"', press_enter=False)),
    (r"type(content='a lamp\n')", Type(MIDDLE, "a lamp")),
    ("scroll(start_box='(500,500)', direction='left')", HoverAndScroll(MIDDLE, "left")),
    ("scroll(direction='down')", HoverAndScroll(MIDDLE, "down")),
    ("wait()", Wait(5)),
    ("finished(content='24 EUR')", GiveAnswer("24 EUR")),
    ("finished()", GiveAnswer("The task is done.")),
    ("call_user()", GiveAnswer("The task cannot be done without the user.")),
]
OPENAI: list[tuple[str, Action]] = [
    ('{"type": "click", "button": "left", "x": 640, "y": 384}', Click(MIDDLE)),
    ('{"type": "click", "x": 640, "y": 384}', Click(MIDDLE)),
    ('{"type": "click", "button": "right", "x": 640, "y": 384}', RightClick(MIDDLE)),
    ('{"type": "click", "button": "back", "x": 0, "y": 0}', GoBack()),
    ('{"type": "click", "button": "forward"}', PressKeys(("Alt", "ArrowRight"))),
    ('{"type": "double_click", "x": 640, "y": 384}', DoubleClick(MIDDLE)),
    ('{"type": "move", "x": 640, "y": 384}', Hover(MIDDLE)),
    (
        '{"type": "drag", "path": [{"x": 640, "y": 384}, {"x": 9, "y": 9}, {"x": 0, "y": 768}]}',
        Drag(MIDDLE, Point(0, 1000)),
    ),
    (
        '{"type": "scroll", "x": 640, "y": 384, "scroll_x": 0, "scroll_y": 300}',
        HoverAndScroll(MIDDLE, "down"),
    ),
    ('{"type": "type", "text": "a lamp"}', Type(MIDDLE, "a lamp", press_enter=False)),
    ('{"type": "keypress", "keys": ["CTRL", "A"]}', PressKeys(("CTRL", "A"))),
    ('{"type": "wait"}', Wait(2)),
    ('{"type": "screenshot"}', Wait(0)),
    ('I click there: {"type": "click", "x": 640, "y": 384}', Click(MIDDLE)),
    ("Answer: 24 EUR", GiveAnswer("24 EUR")),
]
EXAMPLES = [
    *(("qwen3-vl", call(text), action) for text, action in QWEN),
    *(("ui-tars", f"Thought: Go on.\nAction: {text}", action) for text, action in UI_TARS),
    *(("openai-computer-use", text, action) for text, action in OPENAI),
    ("qwen2.5-vl", call('{"action": "left_click", "coordinate": [644, 378]}'), Click(MIDDLE)),
    ("ui-tars-1.5", "Action: click(start_box='(644,378)')", Click(MIDDLE)),
]
REFUSED = [
    ("qwen3-vl", call('{"action": "left_click", "coordinate": [1200, 3]}'), "from 0 to 1000"),
    ("qwen3-vl", call('{"action": "fly"}'), "there is no action 'fly': there are left_click"),
    ("qwen3-vl", call('{"action": "scroll"}'), "`scroll` lacks an argument"),
    ("qwen3-vl", call('{"action": "wait", "time": 600}'), "from 0 to 60"),
    ("qwen3-vl", "I am done.", "there is no call"),
    ("ui-tars", "click(start_box='(1,1)')", "one line `Action: …`"),
    ("ui-tars", "Action: click(start_box='here')", "is not a place"),
    ("ui-tars", "Action: click(start_box=5)", "write click(start_box='(x,y)')"),
    ("ui-tars", "Action: fly()", "there is no action fly"),
    ("ui-tars", "Action: wait()\nAction: wait()", "it had 2"),
    ("openai-computer-use", '{"type": "click", "button": "wheel", "x": 1, "y": 1}', "cannot be"),
    ("openai-computer-use", '{"type": "click", "x": "1", "y": 1}', "a point needs two numbers"),
    ("openai-computer-use", '{"type": "wait"} {"type": "screenshot"}', "different calls"),
    ("openai-computer-use", "24 EUR", 'no JSON object with "type"'),
    ("openai-computer-use", '{"type": "keypress", "keys": []}', "one to eight keys"),
]


@pytest.mark.parametrize(("name", "text", "action"), EXAMPLES)
def test_a_reply_of_the_format_is_read_as_its_action(name: str, text: str, action: Action) -> None:
    assert read(name, text, (clicked(),)) == (action, "")


@pytest.mark.parametrize(("name", "text", "reason"), REFUSED)
def test_any_other_reply_is_rejected_with_a_reason(name: str, text: str, reason: str) -> None:
    action, failure = read(name, text, (clicked(),))
    assert action is None
    assert reason in failure


@pytest.mark.parametrize("past", [(), (past_round(1),), (clicked("http://lamps.example/2"),)])
def test_typing_needs_a_click_on_the_same_page_right_before(past: tuple[Round, ...]) -> None:
    action, failure = read("openai-computer-use", '{"type": "type", "text": "x"}', past)
    assert (action, failure) == (None, "click first where you want to type, and then type")


def test_the_chat_has_the_task_and_the_screenshots_of_the_window() -> None:
    for name in ("qwen3-vl", "qwen2.5-vl", "ui-tars", "ui-tars-1.5", "openai-computer-use"):
        settings = ContextSettings(prompt_version=name, window=2)
        past = tuple(past_round(number) for number in (1, 2, 3))
        chat = find_format(name).write_chat(settings, task(), past, PAGE)
        roles = [message["role"] for message in chat.messages]
        assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
        shown = msgspec.json.encode(chat.recorded).decode()
        assert shown.count('"type":"image_url"') == 3
        assert shown.count("What does the blue lamp cost?") == 1
        assert "Step 1 at" in shown


def test_screenshots_are_resized_to_whole_patches() -> None:
    assert resized(1280, 768) == (1288, 756)
    assert resized(20, 20) == (56, 56)
    width, height = resized(8000, 4000)
    assert width * height <= 12_845_056
    assert width % 28 == height % 28 == 0
