"""What a policy remembers of each conversation, for a bounded number of them.

The chat itself only shows the last rounds in full. The memory of a conversation begins anew with
its first round, so that an episode that is run again does not inherit what the broken one knew, and
a request that is sent again, because its answer was lost, gets the answer it got before.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from webgym.policies.chat import SeenChat
from webgym.policies.policy import Decision

MOST_CONVERSATIONS = 4_096

State = TypeVar("State")


class _Conversation(Generic[State]):
    def __init__(self, state: State) -> None:
        self._state = state
        self._answered: tuple[bytes, Decision] | None = None

    def has_answered(self, chat: SeenChat) -> bool:
        return self._answered is not None and self._answered[0] == chat.digest

    def decide(self, chat: SeenChat, decide: Callable[[State], Decision]) -> Decision:
        if self._answered is None or self._answered[0] != chat.digest:
            self._answered = chat.digest, decide(self._state)
        return self._answered[1]


class Conversations(Generic[State]):
    """By conversation, what `begin` made at its first round; the least recent are forgotten."""

    def __init__(self, begin: Callable[[SeenChat], State], most: int = MOST_CONVERSATIONS) -> None:
        self._begin = begin
        self._most = most
        self._known: OrderedDict[str, _Conversation[State]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def decide(self, chat: SeenChat, decide: Callable[[State], Decision]) -> Decision:
        """What `decide` says, or what it said to the very same chat before."""
        known = self._known.get(chat.conversation)
        if known is None or (chat.is_first and not known.has_answered(chat)):
            known = _Conversation(self._begin(chat))
        self._keep(chat.conversation, known)
        return known.decide(chat, decide)

    def _keep(self, conversation: str, known: _Conversation[State]) -> None:
        if not conversation:  # nobody said whose it is: the next chat may be anybody's
            return
        self._known[conversation] = known
        self._known.move_to_end(conversation)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
