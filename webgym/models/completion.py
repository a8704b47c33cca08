"""A chat completion: its text, why it stopped, and the exact tokens if they are known.

*The text is complete.* A server with a reasoning parser removes the thinking from the text and
returns it as `reasoning_content` or `reasoning`. Here it is put back in front, as
`<think>…</think>`, so that the text is what the model wrote, however its server is set up. A
refusal, or the rest that a content filter left, is text as well.

*Tokens* are for trainers. Those that do not fit together, such as four log probabilities for five
tokens, have a `problem`: the episode is useful without them.
"""

import msgspec

from rollgym.records import NO_USAGE, ModelMalformedError, ModelRole, ModelUse, Usage
from rollgym.records.decoding import JsonDecoder
from rollgym.records.failure import shorten
from rollgym.records.tokens import TokenSample
from rollgym.records.version import UNKNOWN, TurnVersion, body_version
from rollgym.servers.endpoints.times import VersionFallback, note_fallback, note_first_token
from rollgym.servers.final_answer import join_thinking
from rollgym.servers.responses import JsonObject
from rollgym.servers.responses.from_chat import (
    answer_versions,
    chat_token_fields,
    responses_usage,
)
from rollgym.servers.responses.messages import assistant_content, chat_reasoning
from rollgym.servers.responses.shape import (
    ShapeError,
    as_object,
    at,
    get_array,
    get_object,
    get_optional_text,
    shape_errors_as,
)

EXCERPT = 300
_ABORTED = frozenset({"abort", "error"})
_OBJECT = JsonDecoder(dict[str, object])


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One completion. `seconds` is its duration, with all waits and retries.

    `tokens` are those that the server gave; None where it gave none.
    `queued` is the part of `seconds` that the call waited for a slot, `first_token` the time until
    the first token where the server reports it. `version` is the policy version.
    """

    text: str
    finish_reason: str | None = None
    model: str = ""
    usage: Usage = NO_USAGE
    tokens: TokenSample | None = None
    seconds: float = 0.0
    queued: float = 0.0
    first_token: float | None = None
    version: TurnVersion = UNKNOWN

    def use(self, role: ModelRole) -> ModelUse:
        """This call, for the accounts."""
        return ModelUse.one(
            self.model,
            role,
            self.usage,
            seconds=self.seconds,
            queued=self.queued,
            first_token=self.first_token,
        )


def read_completion(answer: bytes, fallback: VersionFallback | None = None) -> Completion:
    """The first choice of a chat completion. Raises ModelMalformedError, saying what is wrong.

    `fallback` is the field to use as policy version if the endpoint sends none.
    """
    try:
        whole: JsonObject = _OBJECT.decode(answer)
    except msgspec.DecodeError as error:
        raise ModelMalformedError(f"the chat completion cannot be read: {error}") from error
    with shape_errors_as(ModelMalformedError, "the chat completion cannot be read"):
        note_first_token(whole)
        note_fallback(whole, fallback)
        choice = _first_choice(whole)
        with at("choices[0]"):
            finish = get_optional_text(choice, "finish_reason")
            if finish in _ABORTED:
                raise ShapeError("finish_reason", f"the server aborted the reply ({finish})")
            text = _text(get_object(choice, "message"), finish)
        return Completion(
            text=text,
            finish_reason=finish,
            model=get_optional_text(whole, "model") or "",
            usage=_usage(whole),
            tokens=TokenSample.of(chat_token_fields(whole, choice)),
            version=body_version(answer_versions(whole, choice)),
        )


def _first_choice(whole: JsonObject) -> JsonObject:
    if not whole.get("choices"):
        raise ShapeError("choices", f"there are none in {shorten(str(whole), EXCERPT)}")
    return as_object(get_array(whole, "choices")[0], "choices[0]")


def _text(message: JsonObject, finish: str | None) -> str:
    with at("message"):
        reasoning = chat_reasoning(message)
        texts, refusals = assistant_content(message)
        refusal = get_optional_text(message, "refusal")
        said = [*texts, *refusals, *([refusal] if refusal else [])]
        # A reply that a filter removed completely is a reply, and a retry would not help.
        if not said and not reasoning and finish != "content_filter":
            raise ShapeError("content", _why_empty(message))
    return join_thinking(reasoning, "".join(said))


def _why_empty(message: JsonObject) -> str:
    if message.get("tool_calls"):
        return (
            "there is none, only a tool call that the server took out of the text; start the "
            "server without a tool-call parser, because calls are parsed here"
        )
    return "there is none, and no reasoning and no refusal either"


def _usage(whole: JsonObject) -> Usage:
    usage = responses_usage(whole)
    if usage is None:
        return NO_USAGE
    return Usage(
        usage["input_tokens"],
        usage["output_tokens"],
        usage["input_tokens_details"]["cached_tokens"],
        usage["output_tokens_details"]["reasoning_tokens"],
    )
