"""Messages, and content of messages: how each is written in Responses and in chat.

*Content.* A message whose only part is a text becomes a plain string: the two mean the same, and
every chat template can read the string. A function call is an item in Responses and an entry of a
message's `tool_calls` in chat.

*Turns.* Responses writes each reasoning, text and call of an assistant as a separate item; chat
writes a whole turn as one message. Items of the assistant are therefore collected in an open turn,
and the turn becomes a message at the next item of another role: user, system, or the output of a
tool. Within a turn, chat has one order only: reasoning, text, calls. While calls wait for their
outputs, everything the assistant adds still belongs to their message, since chat wants a tool's
output right behind the message with the call. Otherwise a text, or reasoning behind a text, starts
a new turn.

Ids of items, token ids and log probabilities are left out.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TypeAlias

from rollgym.servers.final_answer import join_thinking
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    at,
    convert_each,
    get_array,
    get_object,
    get_optional_text,
    get_text,
)

_OTHER_ROLES = frozenset({"user", "system", "developer"})


def chat_content(source: JsonObject, name: str) -> str | list[JsonObject]:
    """Content of a Responses message or tool output, as chat writes it. Raises ShapeError."""
    return _content(source, name, _TO_CHAT, "text")


def responses_content(source: JsonObject, name: str) -> str | list[JsonObject]:
    """Content of a chat message, as Responses writes it. Raises ShapeError."""
    return _content(source, name, _TO_RESPONSES, "input_text")


def _content(
    source: JsonObject, name: str, kinds: "Mapping[str, _Convert]", text_kind: str
) -> str | list[JsonObject]:
    content = source.get(name)
    if isinstance(content, str):
        return content

    def convert(part: JsonObject) -> JsonObject:
        kind = get_text(part, "type")
        if kind not in kinds:
            raise ShapeError("type", f"{kind!r} cannot be sent; use one of {', '.join(kinds)}")
        return kinds[kind](part)

    parts = convert_each(name, get_array(source, name), convert)
    if not parts:
        return ""
    if len(parts) == 1 and parts[0]["type"] == text_kind:
        return str(parts[0]["text"])
    return parts


def assistant_content(source: JsonObject) -> tuple[list[str], list[str]]:
    """Texts and refusals of an assistant's message, of either API. Raises ShapeError."""
    content = source.get("content")
    if content is None:
        return [], []
    if isinstance(content, str):
        return [content], []
    texts: list[str] = []
    refusals: list[str] = []

    def sort(part: JsonObject) -> None:
        kind = get_text(part, "type")
        if kind in {"output_text", "input_text", "text"}:
            texts.append(get_text(part, "text"))
        elif kind == "refusal":
            refusals.append(get_text(part, "refusal"))
        else:
            raise ShapeError("type", f"{kind!r} is not a part of an assistant's message")

    convert_each("content", get_array(source, "content"), sort)
    return texts, refusals


def reasoning_text(item: JsonObject) -> str:
    """The text of a reasoning item: the reasoning itself where it is given, else its summary.

    Encrypted reasoning has no text. Raises ShapeError.
    """
    for name, separator in (("content", ""), ("summary", "\n")):
        if item.get(name):
            return separator.join(
                convert_each(name, get_array(item, name), lambda part: get_text(part, "text"))
            )
    return ""


def reasoning_item(text: str) -> JsonObject:
    """The item for the reasoning of a client.

    Responses needs an id and the clients have none: the same reasoning always gets the same one.
    """
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": f"rs_{digest}", "summary": summary}


def chat_reasoning(message: JsonObject) -> str:
    """The reasoning of an assistant's chat message, under either name that servers give it."""
    reasoning = get_optional_text(message, "reasoning_content")
    return reasoning or get_optional_text(message, "reasoning") or ""


def _chat_text(part: JsonObject) -> JsonObject:
    return {"type": "text", "text": get_text(part, "text")}


def _chat_image(part: JsonObject) -> JsonObject:
    image = {"url": get_text(part, "image_url")}
    detail = get_optional_text(part, "detail")
    if detail is not None:
        image["detail"] = detail
    return {"type": "image_url", "image_url": image}


def _responses_text(part: JsonObject) -> JsonObject:
    return {"type": "input_text", "text": get_text(part, "text")}


def _responses_image(part: JsonObject) -> JsonObject:
    image = get_object(part, "image_url")
    detail = get_optional_text(image, "detail") or "auto"
    return {"type": "input_image", "image_url": get_text(image, "url"), "detail": detail}


_Convert: TypeAlias = Callable[[JsonObject], JsonObject]
_TO_CHAT: Mapping[str, _Convert] = {
    "input_text": _chat_text,
    "output_text": _chat_text,
    "input_image": _chat_image,
}
_TO_RESPONSES: Mapping[str, _Convert] = {"text": _responses_text, "image_url": _responses_image}


def chat_tool_call(item: JsonObject) -> JsonObject:
    """The entry of `tool_calls` for a function_call item. Raises ShapeError."""
    return {
        "id": get_text(item, "call_id"),
        "type": "function",
        "function": {"name": get_text(item, "name"), "arguments": get_text(item, "arguments")},
    }


def function_call_item(call: JsonObject) -> JsonObject:
    """The function_call item for an entry of `tool_calls`. Raises ShapeError."""
    call_id, function = get_text(call, "id"), get_object(call, "function")
    with at("function"):
        name, arguments = get_text(function, "name"), get_text(function, "arguments")
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def chat_messages(params: JsonObject, *, think_tags: bool = False) -> list[JsonObject]:
    """Messages for `instructions` and `input` of a request. Raises ShapeError.

    With `think_tags`, reasoning is written into the assistant's text, in `<think>` tags.
    """
    messages = _ChatMessages(think_tags)
    if params.get("instructions") is not None:
        messages.add_from_role("system", get_text(params, "instructions"))
    if isinstance(params.get("input"), str):
        messages.add_from_role("user", params["input"])
    else:
        convert_each("input", get_array(params, "input"), messages.add)
    return messages.finish()


class _AssistantTurn:
    """Consecutive items of the assistant, which become one message."""

    __slots__ = ("calls", "reasoning", "refusals", "texts")

    def __init__(self) -> None:
        self.reasoning: list[str] = []
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.calls: list[JsonObject] = []

    def message(self, *, think_tags: bool) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": self._content(think_tags)}
        if self.refusals:
            message["refusal"] = "".join(self.refusals)
        if self.calls:
            message["tool_calls"] = self.calls
        if self.reasoning and not think_tags:
            # Servers read one of the two names and ignore the other.
            message["reasoning_content"] = message["reasoning"] = "\n".join(self.reasoning)
        return message

    def _content(self, think_tags: bool) -> str | list[JsonObject] | None:
        texts = self.texts
        if think_tags and self.reasoning:
            text = texts[0] if texts else ""
            texts = [join_thinking("\n".join(self.reasoning), text), *texts[1:]]
        if len(texts) > 1:
            return [{"type": "text", "text": text} for text in texts]
        if texts:
            return texts[0]
        return None if self.calls or self.refusals else ""


class _ChatMessages:
    """Chat messages so far, and the assistant's open turn."""

    def __init__(self, think_tags: bool) -> None:
        self._think_tags = think_tags
        self._messages: list[JsonObject] = []
        self._turn: _AssistantTurn | None = None

    def add(self, item: JsonObject) -> None:
        """Add the next item. Raises ShapeError for an item that chat cannot express."""
        kind = item.get("type") or "message"
        if kind == "message":
            self._add_message(item)
        elif kind == "function_call":
            self._open_turn().calls.append(chat_tool_call(item))
        elif kind == "function_call_output":
            output = chat_content(item, "output")
            call_id = get_text(item, "call_id")
            self._close_turn()
            self._messages.append({"role": "tool", "tool_call_id": call_id, "content": output})
        elif kind == "reasoning":
            if text := reasoning_text(item):
                self._turn_for_text().reasoning.append(text)
        else:
            raise ShapeError("type", f"{kind!r} items cannot be sent to a chat endpoint")

    def add_from_role(self, role: str, content: str | list[JsonObject]) -> None:
        """Add a message of a role other than the assistant."""
        self._close_turn()
        self._messages.append({"role": role, "content": content})

    def finish(self) -> list[JsonObject]:
        """Close the open turn and return all messages."""
        self._close_turn()
        return self._messages

    def _add_message(self, item: JsonObject) -> None:
        role = get_text(item, "role")
        if role in _OTHER_ROLES:
            self.add_from_role(role, chat_content(item, "content"))
            return
        if role != "assistant":
            raise ShapeError("role", f"must be user, system, developer or assistant, not {role!r}")
        texts, refusals = assistant_content(item)
        turn = self._turn_for_text()
        # The parts of one message are one text; servers split it only at annotations.
        turn.texts += ["".join(texts)] if texts or not refusals else []
        turn.refusals += refusals

    def _open_turn(self) -> _AssistantTurn:
        if self._turn is None:
            self._turn = _AssistantTurn()
        return self._turn

    def _turn_for_text(self) -> _AssistantTurn:
        """The turn for a text or reasoning: a new one where the open turn already has a text."""
        turn = self._turn
        if turn is not None and (turn.texts or turn.refusals) and not turn.calls:
            self._close_turn()
        return self._open_turn()

    def _close_turn(self) -> None:
        if self._turn is not None:
            self._messages.append(self._turn.message(think_tags=self._think_tags))
            self._turn = None
