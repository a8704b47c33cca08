"""The action that a call asks for.

The call is first read in its proper form, `{"name": …, "arguments": {…}}`. A call of another form
is converted if it has only one possible meaning, and then the action space reads it. If the action
space rejects it, the arguments are repaired one by one and read again; if no repair applies, the
rejection stands, in the action space's own words.

*Repairs.* Each repair looks at one argument and returns what was meant, or the argument itself.
Nothing is rounded, clipped or filled in: the action space rejects what is still wrong afterwards.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from webgym.actions.base import TARGET_FIELDS
from webgym.actions.space import ACTIONS, TOOLS, Action, ActionError
from webgym.actions.tool_calls import actions_of, read_action
from webgym.browser.contract.commands import InteractionMode
from webgym.context.parsers.loose_json import ReplyError, Tolerances, UnreadableError, read_whole

LONGEST = 64
"""Longer texts are not read as numbers."""

_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?)"
_ONE = re.compile(_NUMBER)
_PAIR = re.compile(rf"(?:\[ *{_NUMBER} *, *{_NUMBER} *\]|\( *{_NUMBER} *, *{_NUMBER} *\))")
_BARE_PAIR = re.compile(rf"{_NUMBER} *, *{_NUMBER}")
_MARK = re.compile(r"\[?([0-9]+)\]?")
_Repair = Callable[[object, Tolerances], object]


def repair_arguments(
    arguments: Mapping[str, object], mode: InteractionMode, tolerances: Tolerances
) -> dict[str, object]:
    """The arguments with all repairs that apply."""
    given = dict(arguments)
    if mode == "coordinates" and "coordinate" not in given and {"x", "y"} <= set(given):
        tolerances.note("x_and_y")
        given["coordinate"] = [given.pop("x"), given.pop("y")]
    given["action"] = _verb(given.get("action"), mode, tolerances)
    for name, repair in _REPAIRS.items():
        if name in given:
            given[name] = repair(given[name], tolerances)
    return _without_empty(given, mode, tolerances)


def _verb(verb: object, mode: InteractionMode, tolerances: Tolerances) -> object:
    """The mode's name for an action that was named as in the other mode, or spelt differently."""
    verbs = actions_of(mode)
    if not isinstance(verb, str) or verb in verbs or len(verb) > LONGEST:
        return verb
    meant = {
        kind.verbs[mode]
        for kind in ACTIONS.values()
        if mode in kind.verbs and _letters(verb) in map(_letters, (kind.key, *kind.verbs.values()))
    }
    if len(meant) != 1:
        return verb
    tolerances.note("action_spelling")
    return meant.pop()


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _coordinate(value: object, tolerances: Tolerances) -> object:
    if isinstance(value, str) and len(value) <= LONGEST:
        found = _PAIR.fullmatch(value.strip()) or _BARE_PAIR.fullmatch(value.strip())
        if found is None:
            return value
        tolerances.note("coordinate_as_text")
        return [float(number) for number in found.groups() if number is not None]
    match value:
        case {"x": x, "y": y, **others} if not others:
            tolerances.note("coordinate_as_object")
            value = [x, y]
        case [[_, _] as pair]:
            tolerances.note("coordinate_in_list")
            value = pair
        case _:
            pass
    match value:
        case [str() as x, str() as y] if _is_number(x) and _is_number(y):
            tolerances.note("list_of_two_texts")
            return [float(x), float(y)]
        case _:
            return value


def _element_id(value: object, tolerances: Tolerances) -> object:
    match value:
        case str() if len(value) <= LONGEST and (found := _MARK.fullmatch(value.strip())):
            tolerances.note("element_id_as_text")
            return int(found[1])
        case [int() as only]:
            tolerances.note("element_id_in_list")
            return only
        case _:
            return value


def _keys(value: object, tolerances: Tolerances) -> object:
    if not isinstance(value, str):
        return value
    keys = ["+"] if value == "+" else [key.strip() for key in value.split("+")]
    if not all(keys):
        return value
    tolerances.note("keys_as_text")
    return keys


def _direction(value: object, tolerances: Tolerances) -> object:
    if isinstance(value, str) and value != (plain := value[:LONGEST].strip().lower()):
        tolerances.note("direction_spelling")
        return plain
    return value


def _number(tolerance: str) -> _Repair:
    def repair(value: object, tolerances: Tolerances) -> object:
        if isinstance(value, str) and _is_number(value):
            tolerances.note(tolerance)
            return float(value)
        return value

    return repair


def _whole_number(value: object, tolerances: Tolerances) -> object:
    if isinstance(value, str) and len(value) <= LONGEST and value.strip().isdecimal():
        tolerances.note("tab_as_text")
        return int(value)
    return value


def _flag(value: object, tolerances: Tolerances) -> object:
    words = {"true": True, "false": False}
    if isinstance(value, str) and (plain := value[:LONGEST].strip().lower()) in words:
        tolerances.note("flag_as_text")
        return words[plain]
    return value


def _text(value: object, tolerances: Tolerances) -> object:
    """Whole numbers only: a number with a point could have been written in several ways."""
    if isinstance(value, int) and not isinstance(value, bool):
        tolerances.note("text_as_number")
        return str(value)
    return value


_REPAIRS: dict[str, _Repair] = {
    "coordinate": _coordinate,
    "element_id": _element_id,
    "time": _number("time_as_text"),
    "keys": _keys,
    "direction": _direction,
    "text": _text,
    "option": _text,
    "to_coordinate": _coordinate,
    "to_element_id": _element_id,
    "offset": _coordinate,
    "value": _number("value_as_text"),
    "tab": _whole_number,
    "press_enter": _flag,
}


def _without_empty(
    given: dict[str, object], mode: InteractionMode, tolerances: Tolerances
) -> dict[str, object]:
    """Without empty arguments that the action does not take, which models add as in a form."""
    kind = actions_of(mode).get(str(given["action"]))
    if kind is None:
        return given
    aim = "coordinate" if mode == "coordinates" else "element_id"
    taken = {field.name for field in msgspec.structs.fields(kind)}
    taken = {f"{TARGET_FIELDS[name]}{aim}" if name in TARGET_FIELDS else name for name in taken}
    taken |= {"action"}
    empty = {name for name, value in given.items() if name not in taken and value in ("", [], {})}
    if empty:
        tolerances.note("empty_arguments")
    return {name: value for name, value in given.items() if name not in empty}


def _is_number(text: str) -> bool:
    return len(text) <= LONGEST and _ONE.fullmatch(text.strip()) is not None


_LABELS = {"id", "type"}
"""Keys that some APIs add to a call; they do not change its meaning."""


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
        tolerated = Tolerances()
        repaired = repair_arguments(arguments, mode, tolerated)
        if not tolerated.names:
            raise
    action = read_action(mode, name, repaired)
    tolerances.note(*tolerated.names)
    return action


def _unwrapped(call: object, tolerances: Tolerances) -> Mapping[str, object]:
    """The object with the name and the arguments. Raises ReplyError."""
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
