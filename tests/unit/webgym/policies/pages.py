"""Pages as a chat shows them, and chats about them."""

from typing import Literal

import msgspec

from rollgym.records import Row
from webgym.browser.contract.answers import Box, Element, PageInfo
from webgym.browser.contract.commands import InteractionMode
from webgym.context.conversation import build_chat
from webgym.context.page_text import PageElement, PageText
from webgym.context.settings import ContextSettings
from webgym.context.sight import Sight
from webgym.policies.chat import SeenChat
from webgym.policies.wire import ChatRequest
from webgym.tasks import WebTask

MODEL = "heuristic-baseline"
KETTLE = """\
RootWebArea "Copper Kettle | A shop"
  banner
    link "Offers"
  main
    heading "Copper Kettle" level=1
    text "Boils water for"
    link "tea"
    text ". It is made in Hest."
    table
      row
        rowheader "Capacity"
        cell "1.7 litres"
      row
        rowheader "Weight"
        cell "900 g"
    heading "Sizes" level=2
    table
      row
        columnheader "Size"
        columnheader "Price"
      row
        cell "Small"
        cell "$30"
      row
        cell "Large"
        cell "$1,050"
    list
      listitem level=1
        text "Free delivery"
  contentinfo
    text "A shop since 1998"
"""


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


def seen(
    task: str,
    shown: PageText | None,
    step: int = 1,
    *,
    mode: InteractionMode = "set_of_marks",
    conversation: str = "one",
) -> SeenChat:
    return SeenChat(
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
    sight = Sight(
        page=PageInfo("http://site/", "A site"), elements=(button,), tree='[7] button "Bell"'
    )
    settings = ContextSettings(interaction_mode=mode, prompt_version=version, observation="text")
    row = {"task_name": task, "website": "http://site/"}
    chat = build_chat(settings, WebTask.of(Row(msgspec.json.encode(row)), "one"), (), sight)
    return {"model": MODEL, "messages": list(chat.messages), "user": "one"}


def decoded(body: dict[str, object]) -> ChatRequest:
    return msgspec.convert(body, ChatRequest)
