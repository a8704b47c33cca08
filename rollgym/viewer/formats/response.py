"""What a response says beside its items: the model, the tokens, and why it ended."""

import msgspec

from rollgym.viewer.formats.conversation import Conversation, conversation_in
from rollgym.viewer.formats.scalars import either
from rollgym.viewer.values import Fields, count_of, fields_of, text_of


class ResponseWords(msgspec.Struct, frozen=True):
    """Of a `response` in the form of the Responses interface, or of a chat completion."""

    model: str = ""
    ending: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


def response_words(fields: Fields) -> ResponseWords:
    """Each empty where the response does not say it."""
    usage = tokens_of(fields_of(fields.get("usage")) or {})
    incomplete = fields_of(fields.get("incomplete_details")) or {}
    return ResponseWords(
        model=text_of(fields.get("model")) or "",
        ending=text_of(incomplete.get("reason")) or "",
        input_tokens=usage[0],
        output_tokens=usage[1],
    )


def tokens_of(usage: Fields) -> tuple[int | None, int | None]:
    """Tokens in and out, by either interface's names; None where they were not counted."""
    into = count_of(usage.get("input_tokens")), count_of(usage.get("prompt_tokens"))
    out = count_of(usage.get("output_tokens")), count_of(usage.get("completion_tokens"))
    return either(*into), either(*out)


def response_conversation(fields: Fields) -> Conversation | None:
    """What its items amount to."""
    return conversation_in(fields.get("output"))
