"""Prompt formats: how a model is shown a task and its pages, and how its reply is read.

`prompt_version` names a format. Ours are listed here in the form of entry points, and an installed
package adds its own in the group `webgym.prompt_formats`. An entry point leads to a `PromptFormat`,
which is loaded when a configuration names it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, ClassVar, Literal

import msgspec

from rollgym.plugins import load_plugin
from rollgym.suggestions import advice
from webgym.browser.contract.answers import Picture
from webgym.browser.contract.commands import InteractionMode

if TYPE_CHECKING:
    from webgym.actions.space import Action
    from webgym.context.page_view import AgentObservation, Round
    from webgym.context.settings import ContextSettings
    from webgym.tasks.task import WebTask

ENTRY_POINTS = "webgym.prompt_formats"
ObservationKind = Literal["image", "text", "both"]


class Chat(msgspec.Struct, frozen=True):
    """A chat for OpenAI's API. `recorded` has the names of images in place of the images."""

    messages: tuple[dict[str, object], ...]
    recorded: tuple[dict[str, object], ...]


class ChatImage(msgspec.Struct, frozen=True):
    """A screenshot, and the name under which it is stored."""

    picture: Picture
    blob: str

    @classmethod
    def of(cls, current: "AgentObservation") -> "ChatImage | None":
        """The screenshot of an observation, where it has one."""
        return cls(current.picture, current.blob) if current.picture else None


class ChatTurn(msgspec.Struct, frozen=True):
    """A message before its image is written out: text, an image, text."""

    role: str
    text: str
    image: ChatImage | None = None
    after: str = ""


def chat_of(turns: Sequence[ChatTurn]) -> Chat:
    """The chat of these turns."""
    sent = [turn.image.picture.data_url if turn.image else None for turn in turns]
    recorded = [f"blob:{turn.image.blob}" if turn.image else None for turn in turns]
    return Chat(tuple(map(_message, turns, sent)), tuple(map(_message, turns, recorded)))


def _message(turn: ChatTurn, image_url: str | None) -> dict[str, object]:
    if image_url is None:
        text = f"{turn.text}\n{turn.after}" if turn.text and turn.after else turn.text or turn.after
        return {"role": turn.role, "content": text}
    image = {"type": "image_url", "image_url": {"url": image_url}}
    before, after = (
        [{"type": "text", "text": text}] * bool(text) for text in (turn.text, turn.after)
    )
    return {"role": turn.role, "content": [*before, image, *after]}


class ParsedReply(msgspec.Struct, frozen=True, kw_only=True):
    """`fields` are the parts that the reply has, such as thinking, memory, intention and action.

    Exactly one of `action` and `failure` is set. `failure` is for the model.
    """

    fields: dict[str, object]
    action: "Action | None" = None
    failure: str | None = None
    tolerances: tuple[str, ...] = ()


class PromptFormat(ABC):
    """One format. It keeps no state, so that one object serves any number of episodes."""

    modes: ClassVar[tuple[InteractionMode, ...]] = ("coordinates", "set_of_marks")
    """The interaction modes in which it can write targets."""
    observations: ClassVar[tuple[ObservationKind, ...]] = ("image", "text", "both")
    """What it can show of a page."""
    has_grammar: ClassVar[bool] = False
    """Whether `grammar` describes its replies."""

    @abstractmethod
    def write_chat(
        self,
        settings: "ContextSettings",
        task: "WebTask",
        past: "Sequence[Round]",
        current: "AgentObservation",
    ) -> Chat:
        """The chat that asks for the next action after the `past` rounds."""

    @abstractmethod
    def read_reply(
        self,
        text: str,
        settings: "ContextSettings",
        past: "Sequence[Round]",
        current: "AgentObservation",
    ) -> ParsedReply:
        """The reply to that chat. Every text has a result, in a time that is bounded."""

    def grammar(
        self, settings: "ContextSettings", task: "WebTask", current: "AgentObservation"
    ) -> str:
        """The replies that are actions on this page, in the notation of llama.cpp (GBNF)."""
        raise NotImplementedError


_OURS = {
    "complete": "webgym.context.conversation:TOOL_CALLS",
    "vanilla": "webgym.context.conversation:TOOL_CALLS",
    "compact": "webgym.context.compact:COMPACT",
    "qwen3-vl": "webgym.context.vision.qwen:QWEN3_VL",
    "qwen2.5-vl": "webgym.context.vision.qwen:QWEN25_VL",
    "ui-tars": "webgym.context.vision.ui_tars:UI_TARS",
    "ui-tars-1.5": "webgym.context.vision.ui_tars:UI_TARS_15",
    "openai-computer-use": "webgym.context.vision.openai:OPENAI_COMPUTER_USE",
}


@cache
def known_formats() -> dict[str, EntryPoint]:
    """All formats by their names: ours first, then those of installed packages."""
    ours = {name: EntryPoint(name, value, ENTRY_POINTS) for name, value in _OURS.items()}
    return {each.name: each for each in entry_points(group=ENTRY_POINTS)} | ours


@cache
def find_format(name: str) -> PromptFormat:
    """Raises ValueError for a format that is unknown or cannot be loaded."""
    known = known_formats()
    if name not in known:
        hint = advice(name, known, f"there are {', '.join(known)}")
        raise ValueError(f"unknown prompt_version {name!r:.60}: {hint}")
    found = load_plugin(known[name], "the prompt format", ValueError)
    if not isinstance(found, PromptFormat):
        raise ValueError(f"the prompt format {name} is {found!r:.100}, not a PromptFormat")  # noqa: TRY004
    return found
