"""Asking a judge: a question goes out, a reply of its form comes back, or a typed error.

*Form.* The endpoint is told the JSON schema of the reply. One that refuses requests with a schema
is asked without from then on: the question itself says the form, too.

*Failing.* A judge that fails, is cut off or replies with anything else than the form is asked once
more, with more room where it was cut off. After that there is no opinion, and no opinion is never a
verdict: VerifierError. What asking again cannot mend, such as a rejected key, is not asked again.
"""

import logging
from collections.abc import Sequence
from typing import TypeVar

from rollgym.records import (
    TRAITS,
    ModelAuthError,
    ModelContextError,
    ModelRequestError,
    RolloutError,
    VerifierError,
)
from rollgym.servers.context import seconds_left
from webgym.models.chat_model import ChatModel, ChatSettings
from webgym.models.completion import Completion
from webgym.models.judging.prompts import Message, once_more
from webgym.models.judging.replies import Form, UnreadableReplyError
from webgym.models.judging.settings import JudgeSettings, Purpose, PurposeSettings

MOST_QUESTIONS = 1024
"""Under way at one model; whoever asks decides how many of these are used."""

T = TypeVar("T")
_LOGGER = logging.getLogger("webgym.models")
_REMEDIES: dict[type[RolloutError], str] = {
    ModelAuthError: "check openai_config.openai_api_key_env_var and the key in that variable",
    ModelContextError: "lower openai_config.max_screenshots, or choose a judge with more context",
    ModelRequestError: "check openai_config.model, base_url and the parameters",
}


class Judge:
    """The models that judge, one for each purpose; purposes with the same settings share one."""

    def __init__(self, settings: JudgeSettings) -> None:
        """Raises EndpointError, as where a key is missing."""
        self._seats: dict[Purpose, _Seat] = {}
        for purpose, chosen in settings.purposes.items():
            shared = [seat for seat in self._seats.values() if seat.settings == chosen]
            self._seats[purpose] = shared[0] if shared else _Seat(chosen)

    def name(self, purpose: Purpose = Purpose.EVALUATION) -> str:
        return self._seats[purpose].settings.model

    async def close(self) -> None:
        for seat in self._seats.values():
            await seat.chat.close()

    async def ask(self, purpose: Purpose, form: Form[T], question: Sequence[Message]) -> T:
        """The judge's reply. Raises VerifierError where there is none to be had."""
        seat = self._seats[purpose]
        asked, room = question, 1
        for last in (False, True):
            try:
                completion = await seat.complete(asked, form, room)
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
        raise _no_opinion(seat.settings.model, purpose, problem) from problem


class _Seat:
    """One model that judges."""

    def __init__(self, settings: PurposeSettings) -> None:
        self.settings = settings
        self.chat = ChatModel(
            settings.endpoints(),
            ChatSettings(
                model=settings.model,
                max_concurrency=MOST_QUESTIONS,
                request_timeout=settings.timeout,
                max_retries=settings.max_retries,
            ),
        )
        self._takes_schemas = True

    async def complete(self, messages: Sequence[Message], form: Form[T], room: int) -> Completion:
        """Raises the model errors, and DeadlineError."""
        params = self.settings.params(room=room)
        if not self._takes_schemas:
            return await self._send(messages, params)
        try:
            return await self._send(messages, {**params, "response_format": form.response_format})
        except ModelRequestError as error:
            refusal = error
        completion = await self._send(messages, params)
        # It is not known to be about the schema before the request goes well without one.
        if self._takes_schemas:
            self._takes_schemas = False
            _LOGGER.warning(
                "the judge %s is asked without a JSON schema from now on: %s",
                self.settings.model,
                refusal,
            )
        return completion

    async def _send(self, messages: Sequence[Message], params: dict[str, object]) -> Completion:
        # One try may take `timeout`; a model that hangs leaves time for the next one.
        tries = 1 + self.settings.max_retries
        return await self.chat.complete(messages, params, within=tries * self.settings.timeout)


def _read(completion: Completion, form: Form[T]) -> T:
    """The reply of a judge that ended by itself: a reply that was cut off is none."""
    match completion.finish_reason:
        case "length":
            raise UnreadableReplyError("it was cut off: there was no room for a whole reply")
        case "content_filter":
            raise UnreadableReplyError("a content filter took it away")
        case _:
            return form.read(completion.text)


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
