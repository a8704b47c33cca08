"""Pages as a chat shows them, and chats about them."""

from typing import Literal

import msgspec

from rollgym.records import Row
from webgym.browser.contract.answers import Box, Element, PageInfo
from webgym.browser.contract.commands import InteractionMode
from webgym.context.conversation import build_chat
from webgym.context.page_view import AgentObservation, PageElement, PageText
from webgym.context.settings import ContextSettings
from webgym.policies import MODEL_NAME
from webgym.policies.chat import ChatRequest, DecisionTurn
from webgym.tasks.task import WebTask


def element(
    role: str,
    name: str,
    *flags: str,
    number: int | None = 1,
    point: tuple[int, int] | None = None,
    url: str | None = None,
) -> PageElement:
    number = None if point else number
    return PageElement(id=number, point=point, role=role, name=name, flags=flags, url=url)


def page(
    *elements: PageElement, text: str = "", url: str = "http://site/", title: str = "A site"
) -> PageText:
    return PageText(url=url, title=title, elements=elements, text=text)


def turn(
    task: str,
    shown: PageText | None,
    step: int = 1,
    *,
    mode: InteractionMode = "set_of_marks",
    conversation: str = "one",
) -> DecisionTurn:
    return DecisionTurn(
        task=task,
        mode=mode,
        page=shown,
        is_complete=True,
        is_first=step == 1,
        conversation=conversation,
        digest=f"{step} {conversation}".encode(),
    )


def request(
    task: str = "Press the bell.",
    mode: InteractionMode = "set_of_marks",
    version: Literal["complete", "vanilla"] = "complete",
) -> dict[str, object]:
    """A request for the first action on a page with one button, as it crosses the wire."""
    button = Element(7, "button", "button", "Bell", "Bell", Box(10, 10, 100, 20))
    current = AgentObservation(
        page=PageInfo("http://site/", "A site"), elements=(button,), tree='[7] button "Bell"'
    )
    settings = ContextSettings(interaction_mode=mode, prompt_version=version, observation="text")
    row = {"task_name": task, "website": "http://site/"}
    chat = build_chat(settings, WebTask.of(Row(msgspec.json.encode(row)), "one"), (), current)
    return {"model": MODEL_NAME, "messages": list(chat.messages), "user": "one"}


def decoded(body: dict[str, object]) -> ChatRequest:
    return msgspec.convert(body, ChatRequest)
