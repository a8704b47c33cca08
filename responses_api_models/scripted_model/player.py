"""What a player is: something that knows how to play one kind of task, well and badly."""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple, Protocol

from responses_api_models.scripted_model.conversation import Conversation
from responses_api_models.scripted_model.luck import Luck


class Call(NamedTuple):
    """A tool call to make."""

    name: str
    arguments: Mapping[str, object]


class Turn(NamedTuple):
    """One turn of the model: a text, or calls. `thought` is what it may show of its reasoning."""

    thought: str
    text: str = ""
    calls: tuple[Call, ...] = ()


class Player(Protocol):
    """`mistakes` are the names of what it can do wrong, at least one; each costs reward."""

    mistakes: ClassVar[tuple[str, ...]]

    def knows(self, conversation: Conversation) -> bool:
        """Whether this is its kind of task."""

    def play(self, conversation: Conversation, mistake: str | None, luck: Luck) -> Turn:
        """The next turn, in a rollout in which it makes this mistake or none."""
