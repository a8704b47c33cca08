"""Chat completions as they cross the wire: only what a policy needs of them.

A request may have any of the parameters a model takes; those that steer sampling mean nothing here
and are not looked at. What would change the shape of the answer (streams, several choices) is
refused. Of the messages only the text is read: a policy is blind.
"""

from http import HTTPStatus
from typing import Literal

import msgspec

from webgym.policies.errors import WrongRequestError

BYTES_PER_TOKEN = 4
"""There is no tokeniser: usage is counted in fours of bytes, about what a token has in English."""


class _Part(msgspec.Struct, frozen=True):
    type: str
    text: str = ""


class Message(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[_Part, ...] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or () if part.type == "text")


class ChatRequest(msgspec.Struct, frozen=True):
    """What is asked for. `user` names the conversation that the chat belongs to."""

    model: str
    messages: tuple[Message, ...]
    user: str | None = None
    seed: int | None = None
    stream: bool | None = None
    n: int | None = None


_READ_REQUEST = msgspec.json.Decoder(ChatRequest).decode


class _Reply(msgspec.Struct, frozen=True):
    content: str
    role: str = "assistant"


class _Choice(msgspec.Struct, frozen=True):
    message: _Reply
    index: int = 0
    finish_reason: str = "stop"
    logprobs: None = None


class ChatUsage(msgspec.Struct, frozen=True):
    """Tokens, by BYTES_PER_TOKEN."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(msgspec.Struct, frozen=True):
    """The answer."""

    id: str
    created: int
    model: str
    choices: tuple[_Choice, ...]
    usage: ChatUsage
    object: str = "chat.completion"


class ModelCard(msgspec.Struct, frozen=True):
    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "webgym"


class ModelList(msgspec.Struct, frozen=True):
    data: tuple[ModelCard, ...]
    object: str = "list"


class _Error(msgspec.Struct, frozen=True):
    message: str
    type: str
    code: int
    param: None = None


class ErrorBody(msgspec.Struct, frozen=True):
    """An error as clients of the OpenAI API read it."""

    error: _Error


def read_request(body: bytes, model: str) -> ChatRequest:
    """Read a request for this model. Raises WrongRequestError."""
    try:
        request = _READ_REQUEST(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise WrongRequestError(f"this is no chat completion request: {error}") from error
    if request.model != model:
        raise WrongRequestError(
            f"there is no model {request.model!r:.100} here: ask for {model!r}",
            HTTPStatus.NOT_FOUND,
        )
    if not request.messages:
        raise WrongRequestError("`messages` is empty: send the chat")
    if request.stream:
        raise WrongRequestError("`stream` is not served: ask for the whole answer")
    if request.n not in (None, 1):
        raise WrongRequestError("`n` must be 1: the policy decides on one action")
    return request


def completion(request: ChatRequest, name: str, created: int, reply: str) -> ChatCompletion:
    """The answer with this reply."""
    asked = sum(_tokens(message.text) for message in request.messages)
    said = _tokens(reply)
    usage = ChatUsage(asked, said, asked + said)
    return ChatCompletion(name, created, request.model, (_Choice(_Reply(reply)),), usage)


def error_body(status: HTTPStatus, message: str) -> bytes:
    kind = "invalid_request_error" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "server_error"
    readable = message.encode("utf-8", "replace").decode()
    return msgspec.json.encode(ErrorBody(_Error(readable, kind, int(status))))


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)
