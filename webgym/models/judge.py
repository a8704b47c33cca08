"""Asking a judge: a question is sent, and its reply is read in the form that was asked for.

*Forms.* A reply is one JSON object of a known form. The reason comes before the verdict, so that a
reply that was cut off is never a whole object. Nothing is searched for in the text: a reply is read
strictly, or not at all. Two wrappings that servers leave around an object are removed first: the
model's thinking (`…</think>`), and a fence of backticks. The endpoint is sent the JSON schema of
the reply. An endpoint that rejects requests with a schema is asked without one from then on,
because the question itself also describes the form.

*Failures.* A judge that fails, is cut off or replies in any other form is asked once more, with
more tokens if it was cut off. After that there is no opinion, and VerifierError is raised: a
missing opinion is never a verdict. An error that a retry cannot fix, such as a rejected key, is not
retried.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from rollgym.records import (
    TRAITS,
    ModelAuthError,
    ModelContextError,
    ModelRequestError,
    ModelRole,
    RolloutError,
    VerifierError,
)
from rollgym.records.decoding import JsonDecoder
from rollgym.records.failure import shorten
from rollgym.servers.context import seconds_left
from webgym.episode.judging import count_judge_call
from webgym.models.chat_model import ChatModel, ChatSettings
from webgym.models.completion import Completion
from webgym.models.judge_settings import JudgeSettings, Purpose, PurposeSettings

LARGEST_REPLY = 100_000
EXCERPT = 200

Message = dict[str, object]
LONGEST_LINE = 500
T = TypeVar("T")
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)
_THOUGHT = "</think>"


class UnreadableReplyError(ValueError):
    """The reply does not have the form that was asked for."""


class Opinion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether one criterion is met."""

    reason: str
    verdict: Literal["pass", "fail"]


class FactOpinion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether the fact with this number holds."""

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
    """Whether something blocks automated visitors."""

    reason: str
    verdict: Literal["blocked", "open"]


class ReplyForm(Generic[T]):
    """A form of replies: its name, its JSON schema, and how to read it."""

    def __init__(
        self,
        name: str,
        kind: type[T],
        schema: Mapping[str, object],
        find_problem: Callable[[T], str | None] = lambda _: None,
    ) -> None:
        """`find_problem` finds mistakes that the schema cannot express."""
        self.name = name
        self.kind = kind
        self.schema = schema
        self._find_problem = find_problem
        self._decoder = JsonDecoder(kind)

    @property
    def response_format(self) -> dict[str, object]:
        """The parameter for endpoints that support schemas."""
        wanted = {"name": self.name, "strict": True, "schema": self.schema}
        return {"type": "json_schema", "json_schema": wanted}

    def read(self, text: str) -> T:
        """Read a reply. Raises UnreadableReplyError with the problem."""
        if len(text) > LARGEST_REPLY:
            raise UnreadableReplyError(f"it has {len(text):,} characters")
        try:
            reply = self._decoder.decode(_unwrapped(text))
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            shown = " ".join(text[:EXCERPT].split())
            raise UnreadableReplyError(f"{error}; it begins {shown!r}") from error
        problem = self._find_problem(reply)
        if problem is not None:
            raise UnreadableReplyError(problem)
        return reply


def facts_form(count: int) -> ReplyForm[FactOpinions]:
    """The form of opinions on this number of facts, each named once and in order."""

    def find_problem(reply: FactOpinions) -> str | None:
        numbers = [opinion.fact for opinion in reply.facts]
        if numbers == list(range(1, count + 1)):
            return None
        return f"it has opinions on the facts {numbers}, and there are facts 1 to {count}"

    return ReplyForm("facts", FactOpinions, _FACTS, find_problem)


def _unwrapped(text: str) -> str:
    said = text.rpartition(_THOUGHT)[2].strip() if not text.lstrip().startswith("{") else text
    fenced = _FENCED.fullmatch(said)
    return fenced.group(1) if fenced else said


def _object(**fields: object) -> dict[str, object]:
    """The schema of an object with exactly these fields."""
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

OPINION = ReplyForm("opinion", Opinion, _object(reason=_TEXT, verdict=_VERDICT))
RELEVANCE = ReplyForm(
    "relevance",
    Relevance,
    _object(reason=_TEXT, relevance={"type": "integer", "enum": [0, 1, 2, 3]}),
)
BLOCKAGE = ReplyForm(
    "blockage",
    Blockage,
    _object(reason=_TEXT, verdict={"type": "string", "enum": ["blocked", "open"]}),
)


MAX_QUESTIONS = 1024
"""Concurrent questions to one model; the evaluator has its own, smaller limit."""

_LOGGER = logging.getLogger("webgym.models")
_REMEDIES: dict[type[RolloutError], str] = {
    ModelAuthError: "check openai_config.openai_api_key_env_var and the key in that variable",
    ModelContextError: "lower openai_config.max_screenshots, or choose a judge with more context",
    ModelRequestError: "check openai_config.model, base_url and the parameters",
}


class JudgeModels:
    """The models that judge, one for each purpose; purposes with equal settings share a model."""

    def __init__(self, settings: JudgeSettings) -> None:
        """Raises EndpointError, for example if a key is missing."""
        self._models: dict[Purpose, _JudgeModel] = {}
        for purpose, chosen in settings.purposes.items():
            shared = [model for model in self._models.values() if model.settings == chosen]
            self._models[purpose] = shared[0] if shared else _JudgeModel(chosen)

    @property
    def name(self) -> str:
        """The model that evaluates."""
        return self._models[Purpose.EVALUATION].settings.model

    async def close(self) -> None:
        for model in self._models.values():
            await model.chat.close()

    async def ask(self, purpose: Purpose, form: ReplyForm[T], question: Sequence[Message]) -> T:
        """The judge's reply. Raises VerifierError if it gives no usable reply."""
        model = self._models[purpose]
        asked, room = question, 1
        for last in (False, True):
            try:
                completion = await model.complete(asked, form, room)
                count_judge_call(completion.use(ModelRole.JUDGE))
                return _read(completion, form)
            except UnreadableReplyError as error:
                problem: Exception = error
                asked, room = once_more(question, str(error)), 2
            except RolloutError as error:
                problem = error
                if type(error) in _REMEDIES:
                    break
            if last or seconds_left(1.0) <= 0:
                break
        raise _no_opinion(model.settings.model, purpose, problem) from problem


class _JudgeModel:
    """One model that judges."""

    def __init__(self, settings: PurposeSettings) -> None:
        self.settings = settings
        self.chat = ChatModel(
            settings.endpoints(),
            ChatSettings(
                model=settings.model,
                max_concurrency=MAX_QUESTIONS,
                request_timeout=settings.timeout,
                max_retries=settings.max_retries,
            ),
        )
        self._accepts_schemas = True

    async def complete(
        self, messages: Sequence[Message], form: ReplyForm[T], room: int
    ) -> Completion:
        """Raises the model errors, and DeadlineError."""
        params = self.settings.params(room=room)
        if not self._accepts_schemas:
            return await self._send(messages, params)
        try:
            return await self._send(messages, {**params, "response_format": form.response_format})
        except ModelRequestError as error:
            rejection = error
        completion = await self._send(messages, params)
        # Only when the request succeeds without a schema is it certain that the schema was the
        # reason.
        if self._accepts_schemas:
            self._accepts_schemas = False
            _LOGGER.warning(
                "the judge %s is asked without a JSON schema from now on: %s",
                self.settings.model,
                rejection,
            )
        return completion

    async def _send(self, messages: Sequence[Message], params: dict[str, object]) -> Completion:
        # One try may take `timeout`, so that a model that hangs leaves time for the next try.
        tries = 1 + self.settings.max_retries
        return await self.chat.complete(messages, params, within=tries * self.settings.timeout)


def _read(completion: Completion, form: ReplyForm[T]) -> T:
    """Read the reply of a judge that finished; a reply that was cut off is not used."""
    match completion.finish_reason:
        case "length":
            raise UnreadableReplyError(
                "it was cut off: the reply was longer than the allowed tokens"
            )
        case "content_filter":
            raise UnreadableReplyError("a content filter removed it")
        case _:
            return form.read(completion.text)


def once_more(messages: Sequence[Message], problem: str) -> list[Message]:
    """The same question again, after a reply that could not be used."""
    reminder = (
        f"Your last reply could not be used: {shorten(problem, LONGEST_LINE)}. Reply again, with "
        "the JSON object alone."
    )
    return [*messages, {"role": "user", "content": reminder}]


def _no_opinion(model: str, purpose: Purpose, problem: Exception) -> VerifierError:
    what = f"the judge {model} gave no usable reply for {purpose}: {problem}"
    if not isinstance(problem, RolloutError):
        return VerifierError(what)
    remedy = _REMEDIES.get(type(problem))
    retryable = problem.retryable
    if retryable is None:
        retryable = TRAITS[problem.kind].retryable
    return VerifierError(
        f"{what}; {remedy}" if remedy else what,
        retryable=retryable,
        retry_after=problem.retry_after,
    )
