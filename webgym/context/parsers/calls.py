"""The action that a call asks for.

First the call is read as it should be written, `{"name": …, "arguments": {…}}`. A call of another
shape is put into that one where only one reading of it exists; then the action space reads it. What
it refuses is mended argument by argument (`arguments`) and read again; if that changes nothing, the
refusal stands, in the action space's own words.
"""

from collections.abc import Mapping

from webgym.actions import TOOLS, Action, ActionError, actions_of, read_action
from webgym.browser.contract.commands import InteractionMode
from webgym.context.parsers.arguments import mended
from webgym.context.parsers.errors import ReplyError, Tolerances
from webgym.context.parsers.loose_json import UnreadableError, read_whole

_LABELS = {"id", "type"}
"""What some APIs write beside a call; it says nothing about what to do."""


def read_call(call: object, mode: InteractionMode, tolerances: Tolerances) -> Action:
    """Raises ReplyError and ActionError."""
    name, arguments = _parts(_unwrapped(call, tolerances), mode, tolerances)
    if isinstance(arguments, str):
        arguments = _read_arguments(arguments, tolerances)
    if not isinstance(arguments, Mapping) or not isinstance(name, str):
        return read_action(mode, str(name), arguments)
    if name in actions_of(mode) and arguments.get("action", name) == name:
        tolerances.note("action_as_tool_name")
        name, arguments = TOOLS[mode], {"action": name} | dict(arguments)
    try:
        return read_action(mode, name, arguments)
    except ActionError:
        forgiven = Tolerances()
        other = mended(arguments, mode, forgiven)
        if not forgiven.names:
            raise
    action = read_action(mode, name, other)
    tolerances.note(*forgiven.names)
    return action


def _unwrapped(call: object, tolerances: Tolerances) -> Mapping[str, object]:
    """The object that says what to call. Raises ReplyError."""
    match call:
        case [Mapping() as only]:
            tolerances.note("call_in_list")
            call = only
        case list() if len(call) > 1:
            raise ReplyError(f"<tool_call> holds {len(call)} calls: write exactly one")
        case _:
            pass
    if not isinstance(call, Mapping):
        raise ReplyError("<tool_call> must hold a JSON object with `name` and `arguments`")
    match call:
        case {"function": Mapping() as function, **others} if set(others) <= _LABELS:
            tolerances.note("function_wrapper")
            return function
        case {"name": _, "arguments": _, **others} if others and set(others) <= _LABELS:
            tolerances.note("extra_keys")
            return {"name": call["name"], "arguments": call["arguments"]}
        case _:
            return call


def _parts(
    call: Mapping[str, object], mode: InteractionMode, tolerances: Tolerances
) -> tuple[object, object]:
    """Name and arguments. Raises ReplyError."""
    match call:
        case {"name": name, "arguments": arguments, **others} if not others:
            return name, arguments
        case {"name": name, "parameters": arguments, **others} if not others:
            tolerances.note("parameters_for_arguments")
            return name, arguments
        case {"arguments": arguments, **others} if not others:
            tolerances.note("tool_name_missing")
            return TOOLS[mode], arguments
        case {"name": str() as name, **others} if not others and name in actions_of(mode):
            return name, {}
        case {"name": name, "action": _, **others} if not {"arguments", "parameters"} & set(others):
            tolerances.note("arguments_beside_name")
            return name, {key: value for key, value in call.items() if key != "name"}
        case {"action": str(), **others} if not {"name", "arguments", "parameters"} & set(others):
            tolerances.note("tool_name_missing", "arguments_beside_name")
            return TOOLS[mode], call
        case _:
            keys = ", ".join(f"`{key[:40]}`" for key in list(call)[:8]) or "nothing"
            raise ReplyError(f"a call has `name` and `arguments` and nothing else; it had {keys}")


def _read_arguments(text: str, tolerances: Tolerances) -> object:
    try:
        arguments = read_whole(text, tolerances)
    except UnreadableError as error:
        raise ReplyError(f"`arguments` must be a JSON object; as text, {error}") from None
    tolerances.note("arguments_as_text")
    return arguments
