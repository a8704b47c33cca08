"""What a judge may reply: one JSON object of a known form, and nothing else.

The reason comes before the verdict, so that a reply which was cut off is never a whole object.
Nothing is searched for in the text: a reply is read strictly as its form, or not at all. Two
wrappings that servers leave around an object are taken off first: what a model thought before it
(`…</think>`), and a fence of backticks.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

LARGEST_REPLY = 100_000
EXCERPT = 200

T = TypeVar("T")
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)
_THOUGHT = "</think>"


class UnreadableReplyError(ValueError):
    """The reply is not of the form that was asked for."""


class Opinion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether one criterion is met."""

    reason: str
    verdict: Literal["pass", "fail"]


class FactOpinion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the fact of this number holds."""

    fact: int
    reason: str
    verdict: Literal["pass", "fail"]


class FactOpinions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One opinion for each fact, in the order of the facts."""

    facts: tuple[FactOpinion, ...]


class Relevance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a screenshot matters: 0 not at all, 3 it decides."""

    reason: str
    relevance: Annotated[int, msgspec.Meta(ge=0, le=3)]


class Blockage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether something keeps automated visitors out."""

    reason: str
    verdict: Literal["blocked", "open"]


class Form(Generic[T]):
    """One form of reply: its name, its JSON schema, and how to read it."""

    def __init__(
        self,
        name: str,
        kind: type[T],
        schema: Mapping[str, object],
        complaint: Callable[[T], str | None] = lambda _: None,
    ) -> None:
        """`complaint` says what is wrong with a reply beyond what the schema can tell."""
        self.name = name
        self.kind = kind
        self.schema = schema
        self._complaint = complaint
        self._decoder = msgspec.json.Decoder(kind)

    @property
    def response_format(self) -> dict[str, object]:
        """What an endpoint that knows schemas is told."""
        wanted = {"name": self.name, "strict": True, "schema": self.schema}
        return {"type": "json_schema", "json_schema": wanted}

    def read(self, text: str) -> T:
        """The reply. Raises UnreadableReplyError, saying what is wrong with it."""
        if len(text) > LARGEST_REPLY:
            raise UnreadableReplyError(f"it has {len(text):,} characters")
        try:
            reply = self._decoder.decode(_unwrapped(text))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
            shown = " ".join(text[:EXCERPT].split())
            raise UnreadableReplyError(f"{error}; it begins {shown!r}") from error
        complaint = self._complaint(reply)
        if complaint is not None:
            raise UnreadableReplyError(complaint)
        return reply


def facts_form(count: int) -> Form[FactOpinions]:
    """Opinions on exactly so many facts, each named once and in order."""

    def complaint(reply: FactOpinions) -> str | None:
        numbers = [opinion.fact for opinion in reply.facts]
        if numbers == list(range(1, count + 1)):
            return None
        return f"it has opinions on the facts {numbers}, and there are facts 1 to {count}"

    return Form("facts", FactOpinions, _FACTS, complaint)


def _unwrapped(text: str) -> str:
    said = text.rpartition(_THOUGHT)[2].strip() if not text.lstrip().startswith("{") else text
    fenced = _FENCED.fullmatch(said)
    return fenced.group(1) if fenced else said


def _object(**fields: object) -> dict[str, object]:
    """The schema of an object with all of these fields and no others."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


_TEXT = {"type": "string"}
_VERDICT = {"type": "string", "enum": ["pass", "fail"]}
_FACT = _object(fact={"type": "integer"}, reason=_TEXT, verdict=_VERDICT)
_FACTS = _object(facts={"type": "array", "items": _FACT})

OPINION = Form("opinion", Opinion, _object(reason=_TEXT, verdict=_VERDICT))
RELEVANCE = Form(
    "relevance",
    Relevance,
    _object(reason=_TEXT, relevance={"type": "integer", "enum": [0, 1, 2, 3]}),
)
BLOCKAGE = Form(
    "blockage",
    Blockage,
    _object(reason=_TEXT, verdict={"type": "string", "enum": ["blocked", "open"]}),
)
