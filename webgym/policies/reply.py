"""A decision as a model would put it: the parts that the prompt asks for, then the tool call."""

import msgspec

from webgym.policies.chat import SeenChat
from webgym.policies.policy import Decision


def write_reply(decision: Decision, chat: SeenChat) -> str:
    """Raises ActionError where the mode has no such action."""
    lines = [f"Action: {decision.action}", decision.action.write(chat.mode).text]
    if chat.is_complete:
        why = " ".join(decision.why.split())
        notes = msgspec.json.encode({"memory": decision.memory, "progress": why}).decode()
        lines = [f"Memory and Progress: {notes}", f"Intention: {why}", *lines]
    return "\n".join(lines)
