"""What a policy sees of a chat: the task, the mode, the page now, and what came of its last reply.

It is all read from the messages, as a model would read it: the mode is that of the tool which the
prompt offers, the task stands in the first message of the user, the page in the last.
"""

import re
from hashlib import blake2b

import msgspec

from webgym.browser.contract.commands import InteractionMode
from webgym.context.conversation import read_task
from webgym.context.page_text import OPENING, PageText, read_page
from webgym.environment.actions import TOOLS
from webgym.policies.errors import WrongRequestError
from webgym.policies.wire import ChatRequest

_STEP = re.compile(r"^Step ([0-9]+)\.", re.MULTILINE)
_COMPLETE = "Memory and Progress:"


class SeenChat(msgspec.Struct, frozen=True):
    """One request for an action. `page` is None where the chat shows pictures only.

    `is_complete` tells that all parts of a reply are asked for, `is_first` that there was none yet.
    `conversation` is empty where the request does not say whose chat it is. `digest` is the same
    for the same chat.
    """

    task: str
    mode: InteractionMode
    page: PageText | None
    is_complete: bool
    is_first: bool
    conversation: str
    digest: bytes


def read_chat(request: ChatRequest) -> SeenChat:
    """Raises WrongRequestError where there is no task or no tool in it."""
    texts = [message.text for message in request.messages]
    asked = [message.text for message in request.messages if message.role == "user"]
    told = [message.text for message in request.messages if message.role == "system"]
    task = next(filter(None, map(read_task, asked[:1])), None)
    if task is None:
        raise WrongRequestError("the first user message has no task: write it after a line `Task:`")
    step = _STEP.findall(asked[-1].partition(OPENING)[0])
    return SeenChat(
        task=" ".join(task.split()),
        mode=_mode("\n".join(told)),
        page=read_page(asked[-1]) if OPENING in asked[-1] else None,
        is_complete=_COMPLETE in "\n".join(told),
        is_first=int(step[-1]) == 1 if step else len(asked) == 1,
        conversation=request.user or "",
        digest=blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).digest(),
    )


def _mode(told: str) -> InteractionMode:
    """Of the tool that the prompt offers."""
    for mode, tool in TOOLS.items():
        if tool in told:
            return mode
    raise WrongRequestError(
        f"the system message offers none of the tools {', '.join(TOOLS.values())}"
    )
