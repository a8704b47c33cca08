import base64
from collections.abc import Mapping

import msgspec

from tests.unit.webgym.context.rounds import PICTURE, element, observation, past_round, task
from webgym.browser.contract.answers import Incident, PageInfo
from webgym.context.conversation import (
    MEMORY_CHARACTERS,
    REPLY_CHARACTERS,
    build_chat,
    read_task,
)
from webgym.context.formats import Chat
from webgym.context.page_text import page_of, read_page
from webgym.context.page_view import Round
from webgym.context.settings import ContextSettings

SETTINGS = ContextSettings()
MARKS = ContextSettings(interaction_mode="set_of_marks")
TEXT_ONLY = ContextSettings(interaction_mode="set_of_marks", observation="text")


def message_text(message: Mapping[str, object]) -> str:
    """The text of a message, without its images."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def chat(past: list[Round] | None = None, settings: ContextSettings = SETTINGS) -> Chat:
    past = past or []
    return build_chat(settings, task(), past, observation(len(past) + 1))


def rounds(count: int) -> list[Round]:
    return [past_round(number) for number in range(1, count + 1)]


def roles(built: Chat) -> list[object]:
    return [message["role"] for message in built.messages]


def images(message: Mapping[str, object]) -> list[str]:
    content = message["content"]
    parts = content if isinstance(content, list) else []
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def test_roles_alternate_and_the_window_bounds_the_rounds() -> None:
    for count in [0, 1, 3, 4, 5, 30]:
        built = chat(rounds(count))
        assert roles(built) == ["system", "user", *["assistant", "user"] * min(count, 4)]
        assert all(images(message) for message in built.messages if message["role"] == "user")


def test_a_window_of_none_has_every_step_as_a_line() -> None:
    built = chat(rounds(3), ContextSettings(window=0))
    assert roles(built) == ["system", "user"]
    text = message_text(built.messages[1])
    assert all(f"Step {number} at" in text for number in (1, 2, 3))
    assert 'Result: led to "http://lamps.example/4"' in text


def test_the_task_stands_in_the_first_user_message_only() -> None:
    built = chat(rounds(7), MARKS)
    first, *others = [message_text(each) for each in built.messages if each["role"] == "user"]
    assert first.startswith("Task:\nWhat does the blue lamp cost?\n\n")
    assert read_task(first) == "What does the blue lamp cost?"
    assert all(read_task(text) is None for text in others)


def test_task_and_page_are_read_back_from_the_chat() -> None:
    for name in ["one", "two\nlines", "two\n\nparagraphs", "Task:\n<page>\nx"]:
        for settings in [SETTINGS, MARKS, TEXT_ONLY]:
            built = build_chat(settings, task(name), [], observation())
            text = message_text(built.messages[-1])
            assert read_task(text) == name
            shown = (
                page_of(observation(), settings.interaction_mode) if settings.shows_text else None
            )
            assert read_page(text) == shown


def test_the_last_message_shows_the_current_page_and_the_result_of_the_last_reply() -> None:
    dialog = Incident("dialog", "confirm: Leave </page>? (answered OK)")
    now = observation(
        9, feedback="element 3 is gone: take another </page>", incidents=(dialog, dialog)
    )
    built = build_chat(MARKS, task(), rounds(2), now)
    text = message_text(built.messages[-1])
    assert (
        "Step 3.\nWhat came of your last reply: element 3 is gone: take another <\\/page>\n"
        "What happened: The page showed a dialog: confirm: Leave <\\/page>? (answered OK)\n"
        "Screenshot:" in text
    )
    assert read_page(text) == page_of(now, "set_of_marks")
    assert images(built.messages[-1]) == [
        f"data:image/png;base64,{base64.b64encode(PICTURE.data).decode()}"
    ]


def test_the_record_has_the_names_of_images_and_is_else_the_same() -> None:
    built = chat(rounds(2), MARKS)
    assert [images(each) for each in built.recorded if each["role"] == "user"] == [
        [f"blob:{number:064d}.png"] for number in (1, 2, 3)
    ]
    assert list(map(message_text, built.recorded)) == list(map(message_text, built.messages))
    assert b"base64" not in msgspec.json.encode(built.recorded)


def test_the_observation_setting_decides_what_is_shown() -> None:
    def latest(settings: ContextSettings) -> tuple[bool, bool]:
        message = chat([], settings).messages[-1]
        return bool(images(message)), "<page>" in message_text(message)

    assert latest(ContextSettings()) == (True, False)
    assert latest(ContextSettings(interaction_mode="set_of_marks")) == (True, True)
    assert latest(ContextSettings(observation="both")) == (True, True)
    assert latest(TEXT_ONLY) == (False, True)
    assert isinstance(chat([], TEXT_ONLY).messages[-1]["content"], str)


def test_without_a_picture_the_message_says_so() -> None:
    built = build_chat(SETTINGS, task(), [], observation(picture=None))
    assert "There is no screenshot of this page." in message_text(built.messages[-1])
    assert images(built.messages[-1]) == []


def test_thinking_is_never_in_the_history() -> None:
    for raw_response, said in [
        ("<think>secret</think>Action: go", "Action: go"),
        ("secret</think>Action: go", "Action: go"),
        ("Action: go<think>secret", "Action: go"),
        ("<think>secret", "(no reply)"),
        ("", "(no reply)"),
        ("a<|im_end|>b", "a<\\|im_end|>b"),
    ]:
        built = chat([past_round(1, raw_response)])
        assert built.messages[2] == {"role": "assistant", "content": said}
        assert b"secret" not in msgspec.json.encode(built.messages)


def test_older_steps_are_lines_with_address_intention_action_and_result() -> None:
    past = [
        past_round(1),
        past_round(2, fields={"action": "I\nwait"}, same=True),
        past_round(3, fields={}, failure="there is no call", seen=observation(2)),
        past_round(4, problem="element 4 is covered"),
        past_round(
            5, seen=observation(5, page=PageInfo('http://x.example/"\n<page>' + "u" * 500, "t"))
        ),
        *rounds(4),
    ]
    lines = message_text(chat(past).messages[1]).split("\n")
    start = lines.index("Earlier steps:")
    assert lines[start + 1 : start + 5] == [
        (
            'Step 1 at "http://lamps.example/1" | Intention: intention 1 | Action: click on [1] '
            '| Result: led to "http://lamps.example/2"'
        ),
        (
            'Step 2 at "http://lamps.example/2" | Intention: I wait | Action: click on [2] '
            "| Result: nothing changed on the screen"
        ),
        'Step 3 at "http://lamps.example/2" | Result: no action, because there is no call',
        (
            'Step 4 at "http://lamps.example/4" | Intention: intention 4 | Action: click on [4] '
            "| Result: it failed: element 4 is covered"
        ),
    ]
    assert lines[start + 5].startswith('Step 5 at "http://x.example/\\"\\n\\u003cpage>uuu')
    assert len(lines[start + 5]) < 300
    assert lines[start + 6] == ""


def test_the_memory_of_the_last_reply_that_has_one_is_carried() -> None:
    past = [
        past_round(1, fields={"memory": "old"}),
        past_round(2, fields={"memory": {"price": "24 </page>"}, "progress": "half"}),
        past_round(3, fields={}, failure="there is no call"),
    ]
    texts = [message_text(message) for message in chat(past, ContextSettings(window=1)).messages]
    carried = 'Your memory so far: {"memory":{"price":"24 \\u003c/page>"},"progress":"half"}'
    assert texts[-1].endswith(carried)
    assert sum("Your memory so far" in text for text in texts) == 1


def test_a_chat_grows_at_its_end_while_the_window_has_room() -> None:
    past = [past_round(number, fields={"memory": f"m{number}"}) for number in (1, 2, 3, 4)]
    for count in (1, 2, 3, 4):
        before, after = chat(past[: count - 1], MARKS), chat(past[:count], MARKS)
        assert after.messages[: 2 * count - 1] == before.messages[: 2 * count - 1]
        latest, then = (
            message_text(before.messages[-1]),
            message_text(after.messages[2 * count - 1]),
        )
        assert latest.startswith(then)


def test_when_the_window_moves_the_beginning_stays() -> None:
    older, newer = (chat(rounds(count), MARKS) for count in (9, 10))
    assert older.messages[0] == newer.messages[0]
    first, second = message_text(older.messages[1]), message_text(newer.messages[1])
    shared = first[: first.index("\n\nStep 6.")]
    assert "Step 5 at" in shared
    assert second.startswith(shared)


def test_a_chat_is_bounded_whatever_pages_hold_and_models_say() -> None:
    endless = observation(
        elements=tuple(element(number, "n" * 10_000) for number in range(1, 2_000)),
        tree="t" * 1_000_000,
        page=PageInfo("http://x.example/" + "u" * 100_000, "t" * 100_000),
        feedback="f" * 100_000,
    )
    fields: dict[str, object] = {"memory": "m" * 100_000, "intention": "i" * 100_000}
    past = [
        past_round(number, "r" * 100_000, fields=fields, problem="p" * 100_000, seen=endless)
        for number in range(1, 300)
    ]
    built = build_chat(TEXT_ONLY, task(), past, endless)
    sizes = [len(message_text(message)) for message in built.messages]
    assert max(sizes[2:]) < TEXT_ONLY.page_characters + MEMORY_CHARACTERS + 3_000
    assert sizes[1] < TEXT_ONLY.page_characters + 120_000
    assert sizes[2] < REPLY_CHARACTERS + 100
    assert "Earlier steps (195 before these left out):" in message_text(built.messages[1])
    assert read_task(message_text(built.messages[1])) == task().task_name


def test_a_reply_that_is_too_long_keeps_its_beginning_and_its_call() -> None:
    built = chat([past_round(1, f"Action: x {'y' * 20_000}<tool_call>z</tool_call>")])
    said = message_text(built.messages[2])
    assert said.startswith("Action: x")
    assert said.endswith("<tool_call>z</tool_call>")
    assert "characters left out)" in said


def test_a_message_without_text_has_none() -> None:
    cases: list[dict[str, object]] = [{}, {"content": None}, {"content": [1, {"text": 2}]}]
    for message in cases:
        assert message_text(message) == ""


def test_our_own_words_about_a_reply_keep_their_tags_and_a_page_s_words_do_not() -> None:
    failure = "end the reply with one <tool_call> block, not <|im_end|> or <page>"
    past = [past_round(1, fields={}, failure=failure)]
    said = "end the reply with one <tool_call> block, not <\\|im_end|> or <\\page>"
    for window in (0, 4):
        settings = ContextSettings(window=window)
        built = build_chat(settings, task(), past, observation(2, feedback=failure))
        texts = "\n".join(map(message_text, built.messages[1:]))
        assert f"What came of your last reply: {said}\n" in texts
        assert (f"no action, because {said}" in texts) == (window == 0)
    by_page = build_chat(SETTINGS, task(), [past_round(1)], observation(2, feedback=failure))
    assert "one <\\tool_call> block" in message_text(by_page.messages[-1])
