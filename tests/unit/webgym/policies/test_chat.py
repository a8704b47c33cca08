from itertools import product
from typing import Literal

import pytest

from tests.unit.webgym.policies.pages import decoded, request, turn
from webgym.actions.space import Click, GiveAnswer, Mark, Point, Target
from webgym.browser.contract.commands import InteractionMode
from webgym.context.parsers import parse_reply
from webgym.context.settings import ContextSettings
from webgym.policies.chat import ChatRequestError, PolicyDecision, read_turn, write_reply


def test_task_mode_and_page_are_read_from_the_messages() -> None:
    chat = read_turn(decoded(request("Press the bell,\nand wait.")))
    assert chat.task == "Press the bell, and wait."
    assert chat.mode == "set_of_marks"
    assert chat.page is not None
    assert [(each.id, each.name) for each in chat.page.elements] == [(7, "Bell")]
    assert (chat.is_first, chat.is_complete, chat.conversation) == (True, True, "one")


def test_the_same_chat_has_the_same_digest_and_another_has_not() -> None:
    one, again = read_turn(decoded(request())), read_turn(decoded(request()))
    other = read_turn(decoded(request("Press it twice.")))
    assert one.digest == again.digest != other.digest


def test_a_chat_without_text_of_the_page_has_no_page() -> None:
    body = request()
    body["messages"] = [
        {"role": "system", "content": "Use web_interaction."},
        {"role": "user", "content": "Task:\nPress the bell.\n\nStep 3.\nThere is a picture."},
    ]
    chat = read_turn(decoded(body))
    assert (chat.page, chat.is_first, chat.is_complete) == (None, False, False)


def test_a_chat_without_task_or_tool_is_rejected() -> None:
    for system, user, message in [
        ("Use web_interaction.", "Press the bell.", "has no task"),
        ("Use your hands.", "Task:\nPress the bell.\n\nStep 1.\n", "none of the tools"),
    ]:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        with pytest.raises(ChatRequestError, match=message):
            read_turn(decoded(request() | {"messages": messages}))


def test_a_chat_without_a_user_message_is_rejected() -> None:
    messages = [{"role": "system", "content": "Use web_interaction."}]
    with pytest.raises(ChatRequestError, match="has no task"):
        read_turn(decoded(request() | {"messages": messages}))


def test_replies_are_read_by_the_strict_grammar() -> None:
    modes: tuple[tuple[InteractionMode, Target], ...] = (
        ("set_of_marks", Mark(7)),
        ("coordinates", Point(500, 20)),
    )
    versions: tuple[Literal["complete", "vanilla"], ...] = ("complete", "vanilla")
    for (mode, target), version in product(modes, versions):
        chat = read_turn(decoded(request(mode=mode, version=version)))
        written = write_reply(PolicyDecision(Click(target), "Press\nthe bell."), chat)
        settings = ContextSettings(interaction_mode=mode, prompt_version=version)
        read = parse_reply(written, settings)
        assert (read.action, read.failure, read.tolerances) == (Click(target), None, ())
        assert ("intention" in read.fields) is (version == "complete")


def test_an_answer_can_have_any_text() -> None:
    text = 'It says "</tool_call>" \u2028 and <page>.'
    written = write_reply(
        PolicyDecision(GiveAnswer(text), "Answer."), turn("What does it say?", None)
    )
    read = parse_reply(written, ContextSettings(interaction_mode="set_of_marks"))
    assert read.action == GiveAnswer(text)
