"""Responses input items as chat messages.

Responses writes each reasoning, text and call of an assistant as a separate item; chat writes a
whole turn as one message. Items of the assistant are therefore collected in an open turn, and the
turn becomes a message at the next item of another role: user, system, or the output of a tool.

Within a turn, chat has one order only: reasoning, text, calls. While calls wait for their outputs,
everything the assistant adds still belongs to their message, since chat wants a tool's output right
behind the message with the call. Otherwise a text, or reasoning behind a text, starts a new turn.

Ids of items, token ids and log probabilities are left out.
"""

from rollgym.servers.final_answer import join_thinking
from rollgym.servers.responses.content import (
    assistant_content,
    chat_content,
    chat_tool_call,
    reasoning_text,
)
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    convert_each,
    get_array,
    get_text,
)

_OTHER_ROLES = frozenset({"user", "system", "developer"})


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
