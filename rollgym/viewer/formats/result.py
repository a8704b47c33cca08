"""What came of a rollout, as rows of files and results of journals say it alike.

The conversation is under `output`, as a transcript; where there is none, in the items of a
`response`; in other people's rows it may be the answers among `messages`.
"""

from typing import NamedTuple

import msgspec

from rollgym.rollouts.fields import METADATA, OUTPUT, RESPONSE
from rollgym.viewer.formats.conversation import Conversation, conversation_in
from rollgym.viewer.formats.facts import MESSAGES
from rollgym.viewer.formats.response import (
    ResponseWords,
    response_conversation,
    response_words,
    tokens_of,
)
from rollgym.viewer.formats.scalars import either
from rollgym.viewer.values import Fields, begins, count_of, fields_of, number_of, text_of


class Numbers(NamedTuple):
    """What the metadata of a row counts."""

    attempt: int | None
    seconds: float | None
    started: float | None
    input_tokens: int | None
    output_tokens: int | None


class Result(msgspec.Struct, frozen=True):
    """`conversation` is None where there is none at all."""

    conversation: Conversation | None
    response: ResponseWords
    metadata: Fields

    @classmethod
    def of(cls, fields: Fields) -> "Result":
        response = fields_of(fields.get(RESPONSE)) or {}
        conversation = conversation_in(fields.get(OUTPUT))
        if conversation is None:
            conversation = response_conversation(response)
        if conversation is None and begins(fields.get(RESPONSE), b'"'):
            conversation = conversation_in(fields.get(RESPONSE))
        if conversation is None:
            conversation = _answered(fields)
        metadata = fields_of(fields.get(METADATA)) or {}
        return cls(conversation, response_words(response), metadata)

    @property
    def numbers(self) -> Numbers:
        metadata = self.metadata
        into, out = tokens_of(fields_of(metadata.get("usage")) or {})
        return Numbers(
            attempt=either(count_of(metadata.get("attempts")), count_of(metadata.get("attempt"))),
            seconds=number_of(metadata.get("seconds")),
            started=number_of(metadata.get("started")),
            input_tokens=either(into, self.response.input_tokens),
            output_tokens=either(out, self.response.output_tokens),
        )

    @property
    def model(self) -> str:
        return self.response.model or text_of(self.metadata.get("model")) or ""

    @property
    def ending(self) -> str:
        return text_of(self.metadata.get("ending")) or self.response.ending

    @property
    def steps(self) -> int | None:
        """As the metadata counts them, else as the conversation shows."""
        metadata = self.metadata
        told = either(count_of(metadata.get("reasoning_steps")), count_of(metadata.get("steps")))
        return told if told is not None or self.conversation is None else self.conversation.turns

    @property
    def tool_calls(self) -> int | None:
        told = count_of(self.metadata.get("tool_calls_made"))
        return told if told is not None or self.conversation is None else self.conversation.calls

    @property
    def tools(self) -> dict[str, int]:
        return self.conversation.tools if self.conversation else {}

    @property
    def last_words(self) -> str:
        return self.conversation.last_words if self.conversation else ""


def _answered(fields: Fields) -> Conversation | None:
    """Of `messages`, where somebody answers in them; else they only ask."""
    conversation = conversation_in(fields.get(MESSAGES))
    return conversation if conversation is not None and conversation.turns else None
