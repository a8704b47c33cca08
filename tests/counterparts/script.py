"""A model that does what the user's text tells it to, one line after the other.

    think TEXT          a reasoning item before the next turn
    wait SECONDS        the next turn takes so long
    call NAME ARGUMENTS a turn that calls a tool; the arguments are passed on as they are written
    also NAME ARGUMENTS another call in the same turn
    say TEXT            the final answer; {outputs} in it stands for what the tools answered

It is as strict about a conversation as a provider is: an output without its call, a call without
its output or without the reasoning that led to it is an invalid request. Where the conversation
stands is read from the calls in it, so the model itself remembers nothing.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.counterparts.answers import Call, Turn

Json = dict[str, Any]


class InvalidRequestError(Exception):
    """The conversation is not one that a model server accepts."""


class Conversation(NamedTuple):
    """What matters of the conversation so far, in either API."""

    text: str
    calls: list[str]
    outputs: dict[str, str]
    reasoning: list[str]


class Step(NamedTuple):
    turn: Turn
    wait: float


def text_of(content: object) -> str:
    """The text of a message, which is a string or a list of parts."""
    match content:
        case str():
            return content
        case list():
            return "".join(part.get("text", "") for part in content)
        case _:
            raise InvalidRequestError(f"not the content of a message: {content!r}")


def from_input(params: Json) -> Conversation:
    """The conversation of a request to `/v1/responses`."""
    given = params.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list):
        raise InvalidRequestError(f"input must be a string or a list of items, not {given!r}")
    told = Conversation("", [], {}, [])
    for item in items:
        match item:
            case {"type": "function_call", "call_id": str(call_id), "arguments": str()}:
                told.calls.append(call_id)
            case {"type": "function_call_output", "call_id": str(call_id), "output": str(output)}:
                told.outputs[call_id] = output
            case {"type": "reasoning", "id": str(identity)}:
                told.reasoning.append(identity)
            case {"role": "user", "content": content}:
                told = Conversation(text_of(content), [], {}, [])
            case {"role": "assistant" | "system" | "developer"}:
                continue
            case _:
                raise InvalidRequestError(f"not an input item: {item!r}")
    return told


def from_messages(params: Json) -> Conversation:
    """The conversation of a request to `/v1/chat/completions`."""
    messages = params.get("messages")
    if not isinstance(messages, list):
        raise InvalidRequestError(f"messages must be a list, not {messages!r}")
    told = Conversation("", [], {}, [])
    for message in messages:
        match message:
            case {"role": "user", "content": content}:
                told = Conversation(text_of(content), [], {}, [])
            case {"role": "assistant", "tool_calls": list(calls)}:
                told.calls.extend(call["id"] for call in calls)
            case {"role": "tool", "tool_call_id": str(call_id), "content": content}:
                told.outputs[call_id] = text_of(content)
            case {"role": "assistant" | "system" | "developer"}:
                continue
            case _:
                raise InvalidRequestError(f"not a message: {message!r}")
    return told


def check_tools(tools: Iterable[Json], *, nested: bool) -> None:
    for tool in tools:
        function = tool.get("function", {}) if nested else tool
        if tool.get("type") != "function" or not function.get("name"):
            raise InvalidRequestError(f"not a function tool: {tool!r}")


def steps_of(text: str) -> list[Step]:
    """Read the lines of a script; a text without any is answered politely."""
    steps: list[Step] = []
    reasoning, wait, calls = None, 0.0, 0
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        match word:
            case "think":
                reasoning = (f"rs_{len(steps)}", rest)
            case "wait":
                wait = float(rest)
            case "call" | "also":
                name, _, arguments = rest.partition(" ")
                call = Call(f"call_{calls}", name, arguments)
                calls += 1
                if word == "call":
                    steps.append(Step(Turn((call,), "", reasoning), wait))
                    reasoning, wait = None, 0.0
                else:
                    turn, waited = steps.pop()
                    steps.append(Step(turn._replace(calls=(*turn.calls, call)), waited))
            case "say":
                steps.append(Step(Turn((), rest, reasoning), wait))
                return steps
    said = "done" if steps else f"You said: {text}"
    return [*steps, Step(Turn((), said, reasoning), wait)]


def play(told: Conversation, *, keeps_reasoning: bool) -> Step:
    """The next step of the conversation's script."""
    if unanswered := [call for call in told.calls if call not in told.outputs]:
        raise InvalidRequestError(f"No tool output found for function call {unanswered[0]}.")
    if unasked := [call for call in told.outputs if call not in told.calls]:
        raise InvalidRequestError(f"No tool call found for function call output {unasked[0]}.")
    calls = list(told.calls)
    for step in steps_of(told.text):
        turn = step.turn
        due = [call.call_id for call in turn.calls]
        if not calls or not due:
            outputs = " | ".join(told.outputs[call] for call in told.calls)
            return step._replace(turn=turn._replace(text=turn.text.replace("{outputs}", outputs)))
        if calls[: len(due)] != due:
            raise InvalidRequestError(f"the calls {calls} are not those that were made: {due}")
        if keeps_reasoning and turn.reasoning and turn.reasoning[0] not in told.reasoning:
            raise InvalidRequestError(
                f"function_call {due[0]} was provided without its required reasoning item "
                f"{turn.reasoning[0]}."
            )
        del calls[: len(due)]
    raise InvalidRequestError(f"calls that were never made: {calls}")
