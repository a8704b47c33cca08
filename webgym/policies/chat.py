"""Chat completions as a policy reads and writes them.

*Requests.* A request may have any of the parameters that a model takes. Those that steer sampling
are ignored; those that would change the shape of the response (streams, several choices) are
rejected. Only the text of the messages is read: a policy sees no images.

*Reading a chat.* The policy reads the messages as a model would: the mode follows from the tool
that the prompt offers, the task is in the first user message, and the current page is in the last
one.

*Replies* have the parts that the prompt asks for, and then the tool call.
"""

import re
from hashlib import blake2b
from http import HTTPStatus
from typing import Literal

import msgspec

from rollgym.records.decoding import JsonDecoder
from webgym.actions.space import TOOLS, Action
from webgym.browser.contract.commands import InteractionMode
from webgym.context.conversation import read_task
from webgym.context.page_text import OPENING, read_page
from webgym.context.page_view import PageText

BYTES_PER_TOKEN = 4
"""Policies have no tokenizer: usage counts four bytes, about one English token, as a token."""
_STEP = re.compile(r"^Step ([0-9]+)\.", re.MULTILINE)
_COMPLETE = "Memory and Progress:"


class ChatRequestError(Exception):
    """A request cannot be answered; the client gets this message and the HTTP status."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


class _ChatPart(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[_ChatPart, ...] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or () if part.type == "text")


class ChatRequest(msgspec.Struct, frozen=True):
    """The body of a request. `user` names the conversation that the chat belongs to."""

    model: str
    messages: tuple[ChatMessage, ...]
    user: str | None = None
    seed: int | None = None
    stream: bool | None = None
    n: int | None = None


_READ_REQUEST = JsonDecoder(ChatRequest).decode


class DecisionTurn(msgspec.Struct, frozen=True):
    """What a policy reads of a request: one turn in which it decides on one action.

    `page` is None when the chat shows pages as images only. `is_complete`: the prompt asks for all
    parts of a reply. `is_first`: this is the first turn of its conversation. `conversation` is
    empty when the request does not name one. Equal chats have equal digests.
    """

    task: str
    mode: InteractionMode
    page: PageText | None
    is_complete: bool
    is_first: bool
    conversation: str
    digest: bytes


class PolicyDecision(msgspec.Struct, frozen=True):
    """The next action, and the reason in a few words."""

    action: Action
    reason: str


def read_request(body: bytes, model: str) -> ChatRequest:
    """Read a request for this model. Raises ChatRequestError."""
    try:
        request = _READ_REQUEST(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ChatRequestError(f"the body is not a chat completion request: {error}") from error
    if request.model != model:
        raise ChatRequestError(
            f"the model {request.model!r:.100} is not served here: ask for {model!r}",
            HTTPStatus.NOT_FOUND,
        )
    if not request.messages:
        raise ChatRequestError("`messages` is empty: send the chat")
    if request.stream:
        raise ChatRequestError("`stream` is not supported: ask for the whole response")
    if request.n not in (None, 1):
        raise ChatRequestError("`n` must be 1: the policy decides on one action")
    return request


def read_turn(request: ChatRequest) -> DecisionTurn:
    """Raises ChatRequestError when the chat has no task or offers no known tool."""
    texts = [message.text for message in request.messages]
    from_user = [message.text for message in request.messages if message.role == "user"]
    system = "\n".join(message.text for message in request.messages if message.role == "system")
    task = read_task(from_user[0]) if from_user else None
    if task is None:
        raise ChatRequestError("the first user message has no task: write it after a line `Task:`")
    step = _STEP.findall(from_user[-1].partition(OPENING)[0])
    return DecisionTurn(
        task=" ".join(task.split()),
        mode=_mode(system),
        page=read_page(from_user[-1]) if OPENING in from_user[-1] else None,
        is_complete=_COMPLETE in system,
        is_first=int(step[-1]) == 1 if step else len(from_user) == 1,
        conversation=request.user or "",
        digest=blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).digest(),
    )


def write_reply(decision: PolicyDecision, turn: DecisionTurn) -> str:
    """The decision as a model would write it. Raises ActionError if the mode lacks the action."""
    lines = [f"Action: {decision.action}", decision.action.write(turn.mode).text]
    if turn.is_complete:
        reason = " ".join(decision.reason.split())
        notes = msgspec.json.encode({"memory": "", "progress": reason}).decode()
        lines = [f"Memory and Progress: {notes}", f"Intention: {reason}", *lines]
    return "\n".join(lines)


def completion_body(request: ChatRequest, name: str, created: int, reply: str) -> dict[str, object]:
    """The chat completion with this reply."""
    prompt = sum(_count_tokens(message.text) for message in request.messages)
    completion = _count_tokens(reply)
    message = {"role": "assistant", "content": reply}
    return {
        "id": name,
        "object": "chat.completion",
        "created": created,
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }


def error_body(status: HTTPStatus, message: str) -> dict[str, object]:
    """An error as clients of the OpenAI API read it."""
    kind = "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
    readable = message.encode("utf-8", "replace").decode()
    error = {"message": readable, "type": kind, "code": int(status), "param": None}
    return {"error": error}


def _mode(system: str) -> InteractionMode:
    """The mode whose tool the prompt offers."""
    for mode, tool in TOOLS.items():
        if tool in system:
            return mode
    raise ChatRequestError(
        f"the system message offers none of the tools {', '.join(TOOLS.values())}"
    )


def _count_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
