"""Responses input items as chat messages.

Responses writes each thing an assistant did as an item of its own; chat writes a whole turn as one
message. Items of the assistant are therefore gathered into an open turn, and the turn becomes a
message when somebody else speaks: a user, the system, or a tool that answers.

Within a turn, chat has one order only: reasoning, text, calls. While calls wait for their answers
everything the assistant adds still belongs to their message, since chat wants a tool's answer right
behind the message that asked for it. Otherwise a text, or reasoning behind a text, begins anew.

What an item carries beyond its meaning (ids of items, token ids, log probabilities) stays behind.
"""

from rollgym.servers.responses.calls import chat_tool_call
from rollgym.servers.responses.parts import assistant_content, chat_content, reasoning_text
from rollgym.servers.responses.shape import (
    JsonObject,
    ShapeError,
    convert_each,
    get_array,
    get_text,
)
from rollgym.servers.responses.thinking import join_thinking

SPEAKERS = frozenset({"user", "system", "developer"})


def chat_messages(params: JsonObject, *, think_tags: bool = False) -> list[JsonObject]:
    """Messages for `instructions` and `input` of a request. Raises ShapeError.

    With `think_tags`, reasoning goes back into the text it came from.
    """
    conversation = _Conversation(think_tags)
    if params.get("instructions") is not None:
        conversation.say("system", get_text(params, "instructions"))
    if isinstance(params.get("input"), str):
        conversation.say("user", params["input"])
    else:
        convert_each("input", get_array(params, "input"), conversation.add)
    return conversation.finish()


class _Turn:
    """What the assistant did since somebody else spoke."""

    __slots__ = ("calls", "reasoning", "refusals", "texts")

    def __init__(self) -> None:
        self.reasoning: list[str] = []
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.calls: list[JsonObject] = []

    @property
    def has_spoken(self) -> bool:
        return bool(self.texts or self.refusals)

    def message(self, *, think_tags: bool) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": self._content(think_tags)}
        if self.refusals:
            message["refusal"] = "".join(self.refusals)
        if self.calls:
            message["tool_calls"] = self.calls
        if self.reasoning and not think_tags:
            # Servers read one name or the other, and pass over the one they do not know.
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


class _Conversation:
    """Chat messages so far, and the assistant's open turn."""

    def __init__(self, think_tags: bool) -> None:
        self._think_tags = think_tags
        self._messages: list[JsonObject] = []
        self._turn: _Turn | None = None

    def add(self, item: JsonObject) -> None:
        """Take the next item. Raises ShapeError where chat has no way to say it."""
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
            self._add_reasoning(item)
        else:
            raise ShapeError("type", f"{kind!r} items cannot be sent to a chat endpoint")

    def say(self, role: str, content: str | list[JsonObject]) -> None:
        """Take what somebody other than the assistant says."""
        self._close_turn()
        self._messages.append({"role": role, "content": content})

    def finish(self) -> list[JsonObject]:
        """All messages."""
        self._close_turn()
        return self._messages

    def _add_message(self, item: JsonObject) -> None:
        role = get_text(item, "role")
        if role in SPEAKERS:
            self.say(role, chat_content(item, "content"))
            return
        if role != "assistant":
            raise ShapeError("role", f"must be user, system, developer or assistant, not {role!r}")
        texts, refusals = assistant_content(item)
        turn = self._turn_to_begin()
        # One message's texts are one text, cut up only by what annotates it.
        turn.texts += ["".join(texts)] if texts or not refusals else []
        turn.refusals += refusals

    def _add_reasoning(self, item: JsonObject) -> None:
        text = reasoning_text(item)
        if text:
            self._turn_to_begin().reasoning.append(text)

    def _open_turn(self) -> _Turn:
        if self._turn is None:
            self._turn = _Turn()
        return self._turn

    def _turn_to_begin(self) -> _Turn:
        """The turn for what a turn begins with; a new one where the open one has had its say."""
        turn = self._turn
        if turn is not None and turn.has_spoken and not turn.calls:
            self._close_turn()
        return self._open_turn()

    def _close_turn(self) -> None:
        if self._turn is not None:
            self._messages.append(self._turn.message(think_tags=self._think_tags))
            self._turn = None
