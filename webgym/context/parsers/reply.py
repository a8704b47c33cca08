"""A reply of the model, read: its parts, and the one action it asks for or why it asks for none.

    <think>…</think>
    Memory and Progress: {"memory": …, "progress": …}
    Intention: …
    Action: …
    <tool_call>
    {"name": "computer_use", "arguments": {"action": "left_click", "coordinate": [512, 340]}}
    </tool_call>

A reply of exactly this grammar has no tolerances. One that differs in ways that leave no doubt is
read too, and each way is named in `tolerances`. Anything else is a `failure`, in words for the
model: there is no action that was not asked for.
"""

import msgspec

from webgym.actions import Action, ActionError
from webgym.context.parsers.blocks import OPENING, find_call
from webgym.context.parsers.calls import read_call
from webgym.context.parsers.errors import ReplyError, Tolerances
from webgym.context.parsers.sections import read_sections
from webgym.context.parsers.thinking import Parted, part_thinking
from webgym.context.settings import ContextSettings


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """`fields` are thinking, memory, progress, intention and action, as far as the reply has them.

    Exactly one of `action` and `failure` is there.
    """

    fields: dict[str, object]
    action: Action | None = None
    failure: str | None = None
    tolerances: tuple[str, ...] = ()


def parse_reply(text: str, settings: ContextSettings) -> Reply:
    """Read a reply. Any text has a result, in time that grows with its length."""
    tolerances = Tolerances()
    parted = part_thinking(_well_formed(text))
    if parted.lone and not settings.thinking:
        tolerances.note("lone_think_tag")
    fields: dict[str, object] = {"thinking": parted.thinking} if parted.thinking else {}
    head = parted.said.partition(OPENING)[0]
    action, failure = None, None
    try:
        _require_reply(parted)
        found = find_call(parted.said, tolerances)
        head = found.head
        if settings.thinking and not parted.tagged:
            _require_nothing_after(tolerances)
        action = read_call(found.call, settings.interaction_mode, tolerances)
    except (ReplyError, ActionError) as error:
        failure = str(error)
    if head.strip() or action is not None:
        fields |= read_sections(head, settings.prompt_version, tolerances)
    return Reply(fields=fields, action=action, failure=failure, tolerances=tolerances.names)


def _require_reply(parted: Parted) -> None:
    if parted.unclosed:
        raise ReplyError(
            "the reply ends inside <think>: think less, close it with </think>, then reply"
        )
    if not parted.said:
        what = "only thinking" if parted.thinking or parted.lone else "empty"
        raise ReplyError(f"the reply was {what}: end it with one {OPENING} block")


def _require_nothing_after(tolerances: Tolerances) -> None:
    """Without tags it may be thinking that broke off, and the call one that was thought of only."""
    if "trailing_text" in tolerances.names:
        raise ReplyError("the reply goes on after its call: let the call be the last of it")


def _well_formed(text: str) -> str:
    """With the replacement character for what no encoding can write."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
