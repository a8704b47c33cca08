"""The readings of a reply: the strict one, each tolerance alone, and each refusal."""

import time

import msgspec

from webgym.actions.space import (
    Action,
    Click,
    Drag,
    DragBy,
    GiveAnswer,
    GoBack,
    HoverAndScroll,
    Mark,
    Navigate,
    Point,
    PressKeys,
    Scroll,
    Select,
    Slide,
    SwitchToTab,
    Type,
    Wait,
)
from webgym.browser.contract.commands import InteractionMode
from webgym.context.parsers import ParsedReply, parse_reply, without_thinking
from webgym.context.settings import ContextSettings

VANILLA = ContextSettings(prompt_version="vanilla")
MARKS = ContextSettings(interaction_mode="set_of_marks", prompt_version="vanilla")
COMPLETE = ContextSettings()
CLICK = '{"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [512, 340]}}'
HEAD = "Action: Click.\n"


def block(call: str) -> str:
    return f"{HEAD}<tool_call>\n{call}\n</tool_call>"


def arguments(text: str, mode: InteractionMode = "coordinates") -> str:
    tool = "computer_use" if mode == "coordinates" else "web_interaction"
    return block(f'{{"name": "{tool}", "arguments": {text}}}')


def test_a_complete_reply_has_every_field_and_no_tolerance() -> None:
    reply = parse_reply(
        "<think>Let me see.</think>\n"
        'Memory and Progress: {"memory": ["24.50 EUR"], "progress": "half"}\n'
        "Intention: See whether\nit is in stock.\n"
        f"Action: Open Delivery.\n<tool_call>\n{CLICK}\n</tool_call>\n",
        COMPLETE,
    )
    assert reply == ParsedReply(
        fields={
            "thinking": "Let me see.",
            "memory": ["24.50 EUR"],
            "progress": "half",
            "intention": "See whether\nit is in stock.",
            "action": "Open Delivery.",
        },
        action=Click(Point(512, 340)),
    )


def test_a_vanilla_reply_has_an_action_and_no_tolerance() -> None:
    reply = parse_reply(block(CLICK), VANILLA)
    assert reply == ParsedReply(fields={"action": "Click."}, action=Click(Point(512, 340)))


def test_a_text_may_hold_any_tag() -> None:
    text = "</tool_call><tool_call>{}</page>"
    reply = parse_reply(arguments(f'{{"action": "answer", "text": "{text}"}}'), VANILLA)
    assert (reply.action, reply.tolerances) == (GiveAnswer(text), ())


MIDDLE, TWELVE = Point(512, 340), Mark(12)
LOOSE_CALLS: list[tuple[str, Action, set[str]]] = [
    (f"{HEAD}<tool_call>{CLICK}", Click(MIDDLE), {"no_closing_tag"}),
    (f"{HEAD}{CLICK}\n</tool_call>", Click(MIDDLE), {"no_opening_tag"}),
    (f"{HEAD}{CLICK}", Click(MIDDLE), {"no_tags"}),
    (f"{HEAD.rstrip()} {{}} so {CLICK}", Click(MIDDLE), {"no_tags"}),
    (f"{HEAD}I click {CLICK}, then look.", Click(MIDDLE), {"no_tags", "trailing_text"}),
    (f"{HEAD}```json\n{CLICK}\n```", Click(MIDDLE), {"no_tags", "code_fence"}),
    (block(f"```json\n{CLICK}\n```"), Click(MIDDLE), {"code_fence"}),
    (f"{HEAD}```\n<tool_call>\n{CLICK}\n</tool_call>\n```", Click(MIDDLE), {"code_fence"}),
    (block(CLICK) + "\nDone!", Click(MIDDLE), {"trailing_text"}),
    (block(CLICK) + f"<tool_call>{CLICK}</tool_call>", Click(MIDDLE), {"repeated_call"}),
    (block(CLICK + "}"), Click(MIDDLE), {"extra_brace"}),
    (block(CLICK.removesuffix("}")), Click(MIDDLE), {"missing_brace"}),
    (block(CLICK.replace('"', "'")), Click(MIDDLE), {"single_quotes"}),
    (block(CLICK.replace("}}", ",}}")), Click(MIDDLE), {"trailing_comma"}),
    (block(f"[{CLICK}]"), Click(MIDDLE), {"call_in_list"}),
    (block(f'{{"function": {CLICK}, "type": "function"}}'), Click(MIDDLE), {"function_wrapper"}),
    (block(CLICK.replace('{"name', '{"id": "c1", "name')), Click(MIDDLE), {"extra_keys"}),
    (
        block(CLICK.replace('"arguments"', '"parameters"')),
        Click(MIDDLE),
        {"parameters_for_arguments"},
    ),
    (block(CLICK.replace('"name": "computer_use", ', "")), Click(MIDDLE), {"tool_name_missing"}),
    (
        block('{"action": "left_click", "coordinate": [512, 340]}'),
        Click(MIDDLE),
        {"tool_name_missing", "arguments_beside_name"},
    ),
    (
        block('{"name": "computer_use", "action": "go_back"}'),
        GoBack(),
        {"arguments_beside_name"},
    ),
    (
        block('{"name": "left_click", "arguments": {"coordinate": [512, 340]}}'),
        Click(MIDDLE),
        {"action_as_tool_name"},
    ),
    (block('{"name": "go_back"}'), GoBack(), {"action_as_tool_name"}),
    (
        block('{"name": "computer_use", "arguments": "{\\"action\\": \\"go_back\\"}"}'),
        GoBack(),
        {"arguments_as_text"},
    ),
    (arguments('{"action": "go_back", "text": None}'), GoBack(), {"python_literals"}),
    (arguments('{"action": "go_back", "text": ""}'), GoBack(), {"empty_arguments"}),
    (arguments('{"action": "goBack"}'), GoBack(), {"action_spelling"}),
    (
        arguments('{"action": "click", "coordinate": [512, 340]}'),
        Click(MIDDLE),
        {"action_spelling"},
    ),
    (
        arguments('{"action": "left_click", "coordinate": "(512, 340)"}'),
        Click(MIDDLE),
        {"coordinate_as_text"},
    ),
    (
        arguments('{"action": "left_click", "coordinate": ["512", "340"]}'),
        Click(MIDDLE),
        {"list_of_two_texts"},
    ),
    (
        arguments('{"action": "left_click", "coordinate": [[512, 340]]}'),
        Click(MIDDLE),
        {"coordinate_in_list"},
    ),
    (
        arguments('{"action": "left_click", "coordinate": {"x": 512, "y": 340}}'),
        Click(MIDDLE),
        {"coordinate_as_object"},
    ),
    (arguments('{"action": "left_click", "x": 512, "y": 340}'), Click(MIDDLE), {"x_and_y"}),
    (arguments('{"action": "wait", "time": "2.5"}'), Wait(2.5), {"time_as_text"}),
    (
        arguments('{"action": "keypress", "keys": "Control+a"}'),
        PressKeys(("Control", "a")),
        {"keys_as_text"},
    ),
    (arguments('{"action": "keypress", "keys": "+"}'), PressKeys(("+",)), {"keys_as_text"}),
    (
        arguments('{"action": "scroll", "direction": "Down"}'),
        Scroll("down"),
        {"direction_spelling"},
    ),
    (arguments('{"action": "answer", "text": 1852}'), GiveAnswer("1852"), {"text_as_number"}),
    (
        arguments('{"action": "answer", "text": "two\nlines"}'),
        GiveAnswer("two\nlines"),
        {"raw_line_breaks"},
    ),
    (
        arguments('{"action": "answer", "text": "Bob\\\'s"}'),
        GiveAnswer("Bob's"),
        {"escaped_apostrophe"},
    ),
    (f"hm</think>{block(CLICK)}", Click(MIDDLE), {"lone_think_tag"}),
    (f"<tool_call>{CLICK}</tool_call>", Click(MIDDLE), {"no_action"}),
    (f"I click.<tool_call>{CLICK}</tool_call>", Click(MIDDLE), {"no_headings"}),
    (f"Well.\n{block(CLICK)}", Click(MIDDLE), {"leading_text"}),
    (block(CLICK).replace("Action:", "**Action:**"), Click(MIDDLE), {"heading_style"}),
]


def test_unambiguous_mistakes_are_tolerated_and_named() -> None:
    for text, action, tolerances in LOOSE_CALLS:
        reply = parse_reply(text, VANILLA)
        assert reply.failure is None
        assert reply.action == action
        assert set(reply.tolerances) == tolerances


def test_elements_are_named_by_numbers() -> None:
    for text, action, tolerances in [
        ('{"action": "click", "element_id": 12}', Click(TWELVE), ()),
        ('{"action": "click", "element_id": "12"}', Click(TWELVE), ("element_id_as_text",)),
        ('{"action": "click", "element_id": "[12]"}', Click(TWELVE), ("element_id_as_text",)),
        ('{"action": "click", "element_id": [12]}', Click(TWELVE), ("element_id_in_list",)),
        ('{"action": "left_click", "element_id": 12}', Click(TWELVE), ("action_spelling",)),
        ('{"action": "type", "element_id": 12, "text": "tea"}', Type(TWELVE, "tea"), ()),
        (
            '{"action": "select", "element_id": 12, "option": 3}',
            Select(TWELVE, "3"),
            ("text_as_number",),
        ),
        (
            '{"action": "hover_and_scroll", "element_id": 12, "direction": "up"}',
            HoverAndScroll(TWELVE, "up"),
            (),
        ),
        ('{"action": "navigate", "url": "https://a.example"}', Navigate("https://a.example"), ()),
        (
            '{"action": "drag", "element_id": "12", "to_element_id": "[3]"}',
            Drag(TWELVE, Mark(3)),
            ("element_id_as_text",),
        ),
        (
            '{"action": "drag_by", "element_id": 12, "offset": "(-5, 7.5)"}',
            DragBy(TWELVE, (-5, 7.5)),
            ("coordinate_as_text",),
        ),
        (
            '{"action": "type", "element_id": 12, "text": "tea", "press_enter": "False"}',
            Type(TWELVE, "tea", press_enter=False),
            ("flag_as_text",),
        ),
        ('{"action": "switch_tab", "tab": "2"}', SwitchToTab(2), ("tab_as_text",)),
        (
            '{"action": "slide", "element_id": 12, "value": "4"}',
            Slide(TWELVE, 4),
            ("value_as_text",),
        ),
    ]:
        reply = parse_reply(arguments(text, "set_of_marks"), MARKS)
        assert (reply.action, reply.tolerances) == (action, tolerances)


OTHER_CALL = CLICK.replace("512", "513")
REFUSED: list[tuple[str, str]] = [
    ("", "the reply was empty"),
    (" \n", "the reply was empty"),
    ("<think>Let me see.</think>", "only thinking"),
    ("</think>", "only thinking"),
    (f"<think>I could write {block(CLICK)}", "ends inside <think>"),
    ("I click on the button.", "there is no call"),
    ('{"a": ' * 20 + CLICK, "there is no call"),
    (f"{HEAD}<tool_call>\n{CLICK[:60]}", "breaks off inside <tool_call>"),
    (f"{HEAD}<tool_call>", "breaks off inside <tool_call>"),
    (f"{HEAD}<tool_call></tool_call>", "cannot be read"),
    (f"{HEAD}<tool_call>click</tool_call>", "cannot be read: a value should stand"),
    (block(CLICK) + f"<tool_call>{OTHER_CALL}</tool_call>", "2 different calls"),
    (f"{HEAD}{CLICK}\n{OTHER_CALL}", "2 different calls"),
    (f"{HEAD}{CLICK}\nor something else", "must stand in one <tool_call> block"),
    (block(f"[{CLICK}, {OTHER_CALL}]"), "holds 2 calls"),
    (block(f"{CLICK} {OTHER_CALL}"), "must hold one JSON object and nothing else"),
    (block("[]"), "must hold a JSON object"),
    (block('"text"'), "must hold a JSON object"),
    (block('{"name": "computer_use"}'), "a call has `name` and `arguments`"),
    (block("{}"), "it had nothing"),
    (block(CLICK.replace("computer_use", "hammer")), "there is no tool 'hammer'"),
    (block(CLICK.replace("computer_use", "web_interaction")), "use computer_use"),
    (block('{"name": "computer_use", "arguments": [1]}'), "`arguments` must be an object"),
    (block('{"name": "computer_use", "arguments": "go back"}'), "must be a JSON object"),
    (block('{"name": {"a": 1}, "arguments": {}}'), "there is no tool"),
    (arguments("{}"), "`action` is missing"),
    (arguments('{"action": "left_clik"}'), "did you mean left_click?"),
    (arguments('{"action": "fly"}'), "there is no action 'fly'"),
    (arguments('{"action": "select", "element_id": 3}'), "it takes `coordinate`"),
    (arguments('{"action": "left_click"}'), "`left_click` needs `coordinate`"),
    (arguments('{"action": "left_click", "coordinate": [512]}'), "`coordinate` must be"),
    (arguments('{"action": "left_click", "coordinate": [1, 2, 3, 4]}'), "`coordinate` must be"),
    (arguments('{"action": "left_click", "coordinate": [1001, 5]}'), "`coordinate` must be"),
    (arguments('{"action": "left_click", "coordinate": "[1001, 5]"}'), "`coordinate` must be"),
    (arguments('{"action": "left_click", "coordinate": [-1, 5]}'), "`coordinate` must be"),
    (arguments('{"action": "left_click", "coordinate": "the button"}'), "`coordinate` must be"),
    (arguments('{"action": "left_click", "coordinate": "512, 340, 7"}'), "`coordinate` must be"),
    (arguments('{"action": "left_click", "coordinate": [NaN, 5]}'), "cannot be read"),
    (arguments('{"action": "left_click", "coordinate": [1e999, 5]}'), "too large"),
    (arguments('{"action": "wait", "action": "go_back"}'), '"action" is given twice'),
    (arguments('{"action": "wait", "time": "a while"}'), "`time` must be"),
    (arguments('{"action": "wait", "time": 61}'), "`time` must be"),
    (arguments('{"action": "keypress", "keys": "Control++"}'), "`keys` must be"),
    (arguments('{"action": "keypress", "keys": ""}'), "`keys` must be"),
    (arguments('{"action": "answer", "text": 1.50}'), "`text` must be"),
    (arguments('{"action": "answer", "text": true}'), "`text` must be"),
    (arguments('{"action": "answer", "text": "\\ud800"}'), "wrong escape"),
    (arguments("{'action': 'answer', 'text': 'Bob's'}"), "cannot be read"),
    (arguments('{"action": "navigate", "url": "example.org"}'), "`url` must be"),
    (arguments('{"action": "go_back", "speed": 3}'), "takes no arguments"),
]


def test_ambiguous_replies_are_rejected_with_a_reason_for_the_model() -> None:
    for text, reason in REFUSED:
        reply = parse_reply(text, VANILLA)
        assert reply.action is None
        assert reply.failure is not None
        assert reason in reply.failure
        assert len(reply.failure) < 400


def test_an_element_id_that_is_not_a_number_is_rejected() -> None:
    for number in ['"twelve"', '"12a"', "1.5", "0", "-3", "true", '"١٢"', "[1, 2]"]:
        call = arguments(f'{{"action": "click", "element_id": {number}}}', "set_of_marks")
        reply = parse_reply(call, MARKS)
        assert reply.failure is not None
        assert "`element_id` must be" in reply.failure


def test_memory_is_json_or_else_kept_as_it_is() -> None:
    cases: list[tuple[str, dict[str, object], tuple[str, ...]]] = [
        (
            '{"memory": {"price": 3}, "progress": ""}',
            {"memory": {"price": 3}, "progress": ""},
            (),
        ),
        ('\n{"memory": "a",\n "progress": "b"}', {"memory": "a", "progress": "b"}, ()),
        ('{"memory": "a"}', {"memory": "a"}, ("no_progress",)),
        ('{"prices": [1]}', {"memory": {"prices": [1]}}, ("memory_keys",)),
        ("[1, 2]", {"memory": [1, 2]}, ("memory_keys",)),
        ("the price is 3", {"memory": "the price is 3"}, ("memory_not_json",)),
        (
            "{'memory': 'a', 'progress': None}",
            {"memory": "a", "progress": None},
            ("memory_single_quotes", "memory_python_literals"),
        ),
        (
            '```json\n{"memory": "a", "progress": "b"}\n```',
            {"memory": "a", "progress": "b"},
            ("memory_code_fence",),
        ),
        ("", {}, ("no_memory",)),
    ]
    for memory, fields, tolerances in cases:
        text = f"Memory and Progress: {memory}\nIntention: i\n{block(CLICK)}"
        reply = parse_reply(text, COMPLETE)
        assert reply.action == Click(MIDDLE)
        assert reply.fields == fields | {"intention": "i", "action": "Click."}
        assert reply.tolerances == tolerances


def test_memory_and_progress_may_have_a_heading_each() -> None:
    reply = parse_reply(f"Memory: a\nProgress: b\nIntention: i\n{block(CLICK)}", COMPLETE)
    assert reply.fields == {"memory": "a", "progress": "b", "intention": "i", "action": "Click."}
    assert reply.tolerances == ("memory_not_json",)


def test_a_refused_reply_keeps_its_memory() -> None:
    reply = parse_reply(
        'Memory and Progress: {"memory": "a", "progress": "b"}\nIntention: i\nAction: wait',
        COMPLETE,
    )
    assert reply.failure is not None
    assert reply.fields["memory"] == "a"


def test_a_second_heading_of_the_same_name_is_text() -> None:
    text = f"Action: one\nAction: two\n<tool_call>{CLICK}</tool_call>"
    assert parse_reply(text, VANILLA).fields == {"action": "one\nAction: two"}


def test_a_model_that_thinks_may_leave_its_opening_tag_to_the_template() -> None:
    thinking = ContextSettings(prompt_version="vanilla", thinking=True)
    reply = parse_reply(f"Perhaps {block(OTHER_CALL)}?</think>\n{block(CLICK)}", thinking)
    assert (reply.action, reply.tolerances) == (Click(MIDDLE), ())
    assert str(reply.fields["thinking"]).startswith("Perhaps")


def test_a_call_that_may_only_have_been_thought_of_is_rejected() -> None:
    thinking = ContextSettings(prompt_version="vanilla", thinking=True)
    text = f"I could write {block(OTHER_CALL)}, but then"
    assert parse_reply(text, thinking).action is None
    assert parse_reply(block(CLICK), thinking).action == Click(MIDDLE)
    assert parse_reply(f"<think>hm</think>{block(CLICK)} Done.", thinking).action == Click(MIDDLE)


def test_thinking_is_split_from_the_reply() -> None:
    for text, said in [
        ("a", "a"),
        ("<think>x</think>a", "a"),
        ("<think>x<think>y</think>z</think>a", "a"),
        ("x</think>a", "a"),
        ("x</think>y</think>a", "a"),
        ("a<think>x", "a"),
        ("<think>x", ""),
        ("<THINK>x</Think> a <thinking>y</thinking> b", "a \n b"),
        ("<thi<think>x</think>nk>a", "<thi\nnk>a"),
        ("<think>x</think>y</think>a", "a"),
    ]:
        assert without_thinking(text) == said


def test_huge_and_deep_replies_are_read_in_time() -> None:
    for text in [
        "[" * 30_000,
        "<tool_call>" + "[" * 30_000 + "]" * 30_000 + "</tool_call>",
        "<tool_call>" + '{"a":' * 30_000,
        "Memory and Progress: " + "[" * 30_000,
        block(CLICK.replace("[512, 340]", '"' + "9" * 300_000 + '"')),
        block(CLICK.replace("512", "5" * 300_000)),
        arguments('{"action": "answer", "text": "' + "a" * 300_000 + '"}'),
        "<think>" * 40_000,
        "</think>" * 40_000,
        "<tool_call>" * 30_000,
        f"<tool_call>{CLICK}</tool_call>" * 9_000,
        "{\n" * 40_000,
        "{" * 300_000,
        ("{" + " " * 100 + "\n") * 10_000,
        " " * 300_000,
        "\n" * 300_000 + "x",
        '"' + "\\" * 300_000,
        '<tool_call>"' + "\\" * 300_001,
        "<tool_call>" + "'" * 300_000,
        "*" * 300_000 + "Action:",
        "Action:" * 40_000,
        "Memory and Progress: ```json\n" * 40_000,
        "```" * 300_000,
        "<tool_call>" + CLICK + "}" * 300_000,
    ]:
        started = time.process_time()
        reply = parse_reply(text, COMPLETE)
        assert time.process_time() - started < 3
        assert (reply.action is None) != (reply.failure is None)
        msgspec.json.encode(reply.fields)
