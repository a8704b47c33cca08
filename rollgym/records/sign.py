"""Signs that a completed rollout deserves a look.

A completed rollout has a reward, but the reward may say little about the model: its reply was cut,
its calls never reached a tool, the verifier found no answer. The worker notes each sign among the
`measures` of the outcome under the name of the sign. So signs are counted wherever measures are: in
a live run, a resumed one, a merge, and a recount from disk.
"""

from collections.abc import Collection
from enum import StrEnum


class Sign(StrEnum):
    """What to look at. The value is the name of the measure."""

    CUT_REPLY = "cut_reply"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"
    STEP_LIMIT = "step_limit"
    NO_TOOL_CALL = "no_tool_call"
    SUCCESS_WITHOUT_TOOLS = "success_without_tools"
    TOOL_CALL_AS_TEXT = "tool_call_as_text"
    CALLS_REJECTED = "tool_calls_rejected"
    TOOL_ERRORS = "tool_errors"
    EMPTY_ANSWER = "empty_answer"
    NO_ANSWER_FOUND = "no_answer_found"


MEANINGS: dict[Sign, str] = {
    Sign.CUT_REPLY: "reply cut by the token limit: raise max_output_tokens",
    Sign.CONTENT_FILTER: "reply cut by the content filter of the endpoint",
    Sign.CONTEXT_OVERFLOW: "the conversation exceeded the model's context",
    Sign.STEP_LIMIT: "stopped at max_steps",
    Sign.NO_TOOL_CALL: "no success and no tool called, although tools were offered",
    Sign.SUCCESS_WITHOUT_TOOLS: "success without a tool call, although tools were offered",
    Sign.TOOL_CALL_AS_TEXT: "tool call written as text: let the endpoint parse tool calls",
    Sign.CALLS_REJECTED: "calls rejected: an unknown tool, or arguments that do not fit",
    Sign.TOOL_ERRORS: "tool errors that the model read",
    Sign.EMPTY_ANSWER: "the last turn has no text",
    Sign.NO_ANSWER_FOUND: "the verifier found no answer in the reply",
}
_BY_NAME = {sign.value: sign for sign in Sign}


def sign_meaning(name: str) -> str:
    """What a sign means; empty for an unknown one."""
    sign = _BY_NAME.get(name)
    return "" if sign is None else MEANINGS[sign]


def signs_among(names: Collection[str]) -> list[Sign]:
    """The signs among the names of measures."""
    if _BY_NAME.keys().isdisjoint(names):  # of most rollouts
        return []
    return [_BY_NAME[name] for name in names if name in _BY_NAME]
