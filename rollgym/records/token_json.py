"""Reading tokens from JSON, which are most of the bytes of an answer that has them.

A prompt has thousands of ids, and nearly all of them were in the turn before. So an answer is
decoded without its tokens (`decode_besides_tokens`). Their arrays stay JSON until the numbers are
needed, and where a prompt begins with the JSON of the turn before, only what follows is decoded
(`TokenReader`).
"""

import re
from array import array
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.records.failure import ModelMalformedError
from rollgym.records.packing import ID_CODE
from rollgym.records.tokens import (
    LOG_PROBS,
    PLAIN,
    PROMPT_IDS,
    SAMPLED_IDS,
    TOKEN_FIELDS,
    TokenLog,
    TokenSample,
    TurnKind,
)

_OBJECT = JsonDecoder(dict[str, Any])
_IDS = JsonDecoder(list[int])
_NEW: JsonDecoder[tuple[list[int], list[float]]] = JsonDecoder(tuple[list[int], list[float]])
_PROMPT = f'"{PROMPT_IDS}":['.encode()
"""Never inside of a text, where the second quotation mark would follow a backslash."""
_FOLLOWING = re.compile(rf',"{SAMPLED_IDS}":\[([^]]*)\](?:,"{LOG_PROBS}":\[([^]]*)\])?'.encode())
_MARK = "\0"
_MARK_IN_JSON = rb'"\u0000"'


def decode_besides_tokens(
    text: bytes,
    holder: Callable[[dict[str, Any]], object],
    decoder: JsonDecoder[Any] = _OBJECT,
    *,
    to_read: bool = False,
) -> dict[str, Any]:
    """Decode an object, except for the array of prompt ids in the part of it that `holder` finds,
    and those of sampled ids and log probabilities right behind it.

    They become msgspec.Raw, or `to_read` what `TokenReader` reads. If they are elsewhere, or are
    not arrays of numbers, everything is decoded, as it is if the `decoder` does not read it. Raises
    msgspec.DecodeError.
    """
    start = text.find(_PROMPT)
    if start < 0:
        return _decoded(text, decoder)
    start += len(_PROMPT)
    end = text.find(b"]", start)
    following = _FOLLOWING.match(text, end + 1)
    after = following.end() if following else end + 1
    try:
        marked = b"%b%b%b" % (text[: start - 1], _MARK_IN_JSON, text[after:])
        whole = _decoded(marked, decoder)
    except msgspec.DecodeError:  # there is an array or a text in an array, or no end of it
        return _OBJECT.decode(text)
    part = holder(whole)
    if not isinstance(part, dict) or part.get(PROMPT_IDS) != _MARK:
        return _OBJECT.decode(text)
    part[PROMPT_IDS] = text[start:end] if to_read else msgspec.Raw(text[start - 1 : end + 1])
    if following:
        sampled, logprobs = following.groups()
        part[SAMPLED_IDS] = sampled if to_read else as_json(sampled)
        if logprobs is not None:
            part[LOG_PROBS] = logprobs if to_read else as_json(logprobs)
    return whole


def as_json(numbers: bytes) -> msgspec.Raw:
    """The array of numbers that `TokenReader` reads, as JSON."""
    return msgspec.Raw(b"[%b]" % numbers)


def _decoded(text: bytes, decoder: JsonDecoder[Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = decoder.decode(text)
    except msgspec.ValidationError:
        return _OBJECT.decode(text)
    return found


class TokenReader:
    """Reads the tokens of an episode's turns, of which each mostly continues the one before it.

    Arrays of numbers may be JSON, as bytes without the brackets. `source` says where they are, for
    errors.
    """

    __slots__ = ("_prompt", "_sampled", "_source", "log")

    def __init__(self, source: str) -> None:
        self._source = source
        self.log = TokenLog()
        # The last prompt in the log as such bytes, and how a prompt goes on that continues what
        # was sampled after it; "" where this is unknown.
        self._prompt = b""
        self._sampled = b""

    def read(self, number: int, fields: Mapping[str, Any], kind: TurnKind = PLAIN) -> bool:
        """Add the `TOKEN_FIELDS` of a turn to the log; False if there are no ids among them.

        Raises ModelMalformedError for tokens that are not JSON.
        """
        prompt, sampled, logprobs = map(fields.get, TOKEN_FIELDS)
        if not (isinstance(prompt, bytes) and isinstance(sampled, bytes)):
            prompt = sampled = b""
        elif not (logprobs is None or isinstance(logprobs, bytes)):
            sampled = b""
        if not self._extend(number, prompt, sampled, logprobs, kind):
            sample = self._sample(fields)
            if sample is None:
                return False
            self.log.skip_to(number)
            self.log.add(sample, kind)
            if not (sample.prompt or sample.sampled):
                return True
        self._prompt, self._sampled = prompt, b",%b," % sampled if prompt and sampled else b""
        return True

    def _extend(
        self, number: int, prompt: bytes, sampled: bytes, logprobs: bytes | None, kind: TurnKind
    ) -> bool:
        """Add a turn whose prompt begins with all ids of the turn before it.

        Not any other turn, and not one whose tokens do not fit together.
        """
        known, before = len(self._prompt), self._sampled
        continues = prompt.startswith(self._prompt) and prompt.startswith(before, known)
        if not (continues and before and sampled):
            return False
        following, count = prompt[known + len(before) :], sampled.count(b",") + 1
        try:
            ids, numbers = _NEW.decode(b"[[%b,%b],[%b]]" % (following, sampled, logprobs or b""))
            new = array(ID_CODE, ids)
        except (msgspec.DecodeError, OverflowError):
            return False
        if logprobs is not None and len(numbers) != count:
            return False
        self.log.skip_to(number)
        self.log.extend(new[:-count], new[-count:], None if logprobs is None else numbers, kind)
        return True

    def _sample(self, fields: Mapping[str, Any]) -> TokenSample | None:
        found = dict(fields)
        for name, given in fields.items():
            if not isinstance(given, bytes):
                continue
            try:
                ids = self._prompt_ids(given) if name == PROMPT_IDS else None
                found[name] = decode_json(b"[%b]" % given) if ids is None else ids
            except msgspec.DecodeError as error:
                raise ModelMalformedError(
                    f"{name} in {self._source} is not JSON: {error}"
                ) from error
        return TokenSample.of(found)

    def _prompt_ids(self, text: bytes) -> "array[int] | None":
        """None for an array in which not all are ids."""
        known = self._prompt
        try:
            if known and text.startswith(known) and text.startswith(b",", len(known)):
                following = _IDS.decode(b"[%b]" % text[len(known) + 1 :])
                return self.log.last_prompt + array(ID_CODE, following)
            return array(ID_CODE, _IDS.decode(b"[%b]" % text))
        except (msgspec.DecodeError, OverflowError):
            return None
