"""What a response says beside its items: the model, the tokens, and why it ended."""

import msgspec

from rollgym.viewer.formats.conversation import Conversation, conversation_in
from rollgym.viewer.formats.values import Fields, either, fields_in, natural, text


class ResponseWords(msgspec.Struct, frozen=True):
    """Of a `response` in the form of the Responses interface, or of a chat completion."""

    model: str = ""
    ending: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None


def response_words(fields: Fields) -> ResponseWords:
    """Each empty where the response does not say it."""
    usage = tokens_of(fields_in(fields.get("usage")))
    return ResponseWords(
        model=text(fields.get("model")),
        ending=text(fields_in(fields.get("incomplete_details")).get("reason")),
        input_tokens=usage[0],
        output_tokens=usage[1],
    )


def tokens_of(usage: Fields) -> tuple[int | None, int | None]:
    """Tokens in and out, by either interface's names; None where they were not counted."""
    into = natural(usage.get("input_tokens")), natural(usage.get("prompt_tokens"))
    out = natural(usage.get("output_tokens")), natural(usage.get("completion_tokens"))
    return either(*into), either(*out)


def response_conversation(fields: Fields) -> Conversation | None:
    """What its items amount to."""
    return conversation_in(fields.get("output"))
