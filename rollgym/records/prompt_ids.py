"""Reading the ids of prompts, which are most of the bytes of an answer with tokens.

A prompt has thousands of ids, and nearly all of them were in the prompt before. So an answer is
decoded without them (`decode_besides_prompt`), and of the array, which stays JSON until its
numbers are needed, only what is new is decoded (`PromptReader`).
"""

from array import array
from collections.abc import Callable
from typing import Any

import msgspec

from rollgym.records.decoding import JsonDecoder, decode_json
from rollgym.records.packing import ID_CODE
from rollgym.records.tokens import PROMPT_IDS

_OBJECT = JsonDecoder(dict[str, Any])
_IDS = JsonDecoder(list[int])
_NAME = f'"{PROMPT_IDS}":['.encode()
"""Never inside of a text, where the second quotation mark would follow a backslash."""
_MARK = "\0"
_MARK_IN_JSON = rb'"\u0000"'


def decode_besides_prompt(
    text: bytes,
    holder: Callable[[dict[str, Any]], object],
    decoder: JsonDecoder[Any] = _OBJECT,
) -> dict[str, Any]:
    """Decode an object, except for the array of prompt ids in the part of it that `holder` finds.

    If the array is elsewhere, or is not one of numbers, everything is decoded, as it is if the
    `decoder` does not read it. Raises msgspec.DecodeError.
    """
    found = text.find(_NAME)
    if found < 0:
        return _decoded(text, decoder)
    start = found + len(_NAME) - 1
    end = text.find(b"]", start) + 1
    if end:
        try:
            marked = b"%b%b%b" % (text[:start], _MARK_IN_JSON, text[end:])
            whole = _decoded(marked, decoder)
        except msgspec.DecodeError:  # there is an array or a text in the array
            return _OBJECT.decode(text)
        part = holder(whole)
        if isinstance(part, dict) and part.get(PROMPT_IDS) == _MARK:
            part[PROMPT_IDS] = msgspec.Raw(text[start:end])
            return whole
    return _OBJECT.decode(text)


def _decoded(text: bytes, decoder: JsonDecoder[Any]) -> dict[str, Any]:
    try:
        found: dict[str, Any] = decoder.decode(text)
    except msgspec.ValidationError:
        return _OBJECT.decode(text)
    return found


class PromptReader:
    """Reads the prompts of an episode, of which each mostly continues the one before it."""

    __slots__ = ("_ids", "_text")

    def __init__(self) -> None:
        self._text = b"["  # the array before its end, as a prompt that continues it begins
        self._ids = array(ID_CODE)

    def read(self, prompt: msgspec.Raw) -> object:
        """The ids as an array; anything else that is not an array of ids as it is in the JSON."""
        text, known = bytes(prompt), self._text
        continues = text.startswith(known)
        try:
            fresh = _IDS.decode(b"[" + text[len(known) :] if continues else text)
            ids = array(ID_CODE, fresh)
        except (msgspec.DecodeError, OverflowError):
            return decode_json(text)
        self._text, self._ids = text[:-1] + b",", self._ids + ids if continues else ids
        return self._ids
