"""What a policy is: it sees a chat and decides on one action."""

from typing import Protocol

import msgspec

from webgym.environment.actions import Action
from webgym.policies.chat import SeenChat


class Decision(msgspec.Struct, frozen=True):
    """What to do next, in a few words why, and what is known so far."""

    action: Action
    why: str
    memory: str = ""


class Policy(Protocol):
    """Decides at once and without waiting for anything: it is called on the event loop."""

    def decide(self, chat: SeenChat) -> Decision:
        """The next action of this conversation."""
