"""Finding the signs that a completed rollout deserves a look (see `rollgym.records.sign`).

Everything is read from the decoded response, once, when the rollout ends. The parameters of the
task are decoded only where it matters whether tools were offered. Texts are searched for fixed
words, so the time is proportional to their length.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rollgym.records.decoding import JsonDecoder
from rollgym.records.sign import Sign
from rollgym.rollouts import rows
from rollgym.servers.responses import Response

_MARKERS = (
    *("<tool_call", "<|tool_call", "[TOOL_CALL", "<function=", "<function_call", "<invoke "),
    *("<|python_tag|>", "<tool_use", "```tool_code", " to=functions."),
)
"""How models write calls as text, where their endpoint does not read them as calls."""
_SUSPICIOUS = (*_MARKERS, '"arguments"', '"parameters"')
_EXTRACTED = "extracted_"
_NOTHING = (b"null", b'""', b"[]")
_STOPS = {"max_steps": Sign.STEP_LIMIT, "context_overflow": Sign.CONTEXT_OVERFLOW}
_REASONS = {
    "max_output_tokens": Sign.CUT_REPLY,
    "content_filter": Sign.CONTENT_FILTER,
    "max_steps": Sign.STEP_LIMIT,  # in rows of earlier versions
}
_COUNTS = (Sign.TOOL_ERRORS, Sign.CALLS_REJECTED)


class _OfferedTool(msgspec.Struct):
    name: str = ""


class _Offer(msgspec.Struct):
    tools: list[_OfferedTool] | None = None


_OFFER = JsonDecoder(_Offer)
_RESPONSE = JsonDecoder(dict[str, Any])


def signs_of(
    params: msgspec.Raw | bytes | None,
    response: Response,
    verified: Mapping[str, msgspec.Raw],
    *,
    success: bool,
) -> dict[str, float]:
    """The signs of a rollout as measures: 1, or how many there are.

    `params` are the parameters of its task, `verified` the fields of the verifier.
    """
    found: dict[Sign, float] = {}
    if response.raw:  # a verifier need not echo it
        texts = response.texts
        if ending := _ending(response):
            found[ending] = 1.0
        elif _is_empty(response, texts):
            found[Sign.EMPTY_ANSWER] = 1.0
        found |= _counts(response)
        found |= _without_calls(params, response, texts, success=success)
    if not success and any(_says_nothing(name, raw) for name, raw in verified.items()):
        found[Sign.NO_ANSWER_FOUND] = 1.0
    return {sign.value: number for sign, number in found.items()}


def signs_in_row(fields: Mapping[str, msgspec.Raw], *, success: bool) -> dict[str, float]:
    """The signs of the row of a rollout that any program wrote."""
    try:
        response = Response.of(_RESPONSE.decode(fields.get(rows.RESPONSE, b"{}")))
    except (msgspec.DecodeError, UnicodeDecodeError):
        response = Response.of({})
    return signs_of(fields.get(rows.PARAMS), response, fields, success=success)


def _ending(response: Response) -> Sign | None:
    """How the episode ended: the agent's word counts before the model's."""
    metadata = response.raw.get("metadata")
    stopped_by = metadata.get("stopped_by") if isinstance(metadata, dict) else None
    sign = _STOPS.get(stopped_by) if isinstance(stopped_by, str) else None
    return sign or _REASONS.get(response.incomplete_reason or "")


def _is_empty(response: Response, texts: Sequence[str]) -> bool:
    """Whether the last turn has no text. A turn that ends in a tool call needs none."""
    match response.output[-1].get("type", "message") if response.output else "reasoning":
        case "message":
            return not ((texts and texts[-1].strip()) or response.refusal)
        case kind:
            return kind == "reasoning"


def _counts(response: Response) -> dict[Sign, float]:
    metadata = response.raw.get("metadata")
    if not metadata or not isinstance(metadata, dict):
        return {}
    texts = ((sign, metadata.get(sign.value)) for sign in _COUNTS)
    return {
        sign: float(text)
        for sign, text in texts
        if isinstance(text, str) and text.isdecimal() and len(text) < 10 and int(text)
    }


def _without_calls(
    params: msgspec.Raw | bytes | None, response: Response, texts: Sequence[str], *, success: bool
) -> dict[Sign, float]:
    called = "function_call" in [item.get("type") for item in response.output]
    suspicious = [text for text in texts if _is_suspicious(text)]
    if called and not suspicious:
        return {}
    offered = _offered(params)
    if not offered:
        return {}
    found: dict[Sign, float] = {}
    if not called:
        found[Sign.SUCCESS_WITHOUT_TOOLS if success else Sign.NO_TOOL_CALL] = 1.0
    written = sum(_looks_like_call(text, offered) for text in suspicious)
    if written:
        found[Sign.TOOL_CALL_AS_TEXT] = float(written)
    return found


def _offered(params: msgspec.Raw | bytes | None) -> Sequence[str]:
    """The names of the tools among the parameters."""
    try:
        offer = _OFFER.decode(params) if params else _Offer()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    return [tool.name for tool in offer.tools or ()]


def _is_suspicious(text: str) -> bool:
    if not ("<" in text or '"' in text or "[" in text or "`" in text or " to=" in text):
        return False  # as most texts: no marker is without one of these
    for marker in _SUSPICIOUS:  # noqa: SIM110 - twice as fast as `any`, for every text
        if marker in text:
            return True
    return False


def _looks_like_call(text: str, offered: Sequence[str]) -> bool:
    if any(marker in text for marker in _MARKERS):
        return True
    return any(name and f'"{name}"' in text for name in offered)


def _says_nothing(name: str, raw: msgspec.Raw) -> bool:
    return name.startswith(_EXTRACTED) and bytes(raw) in _NOTHING
