"""Arguments that are written wrongly but mean one thing only, put right.

Each mender looks at one argument, and answers with what was meant or with the argument itself.
Nothing is rounded, moved into its range or filled in: what is still wrong afterwards is refused by
the action space.
"""

import re
from collections.abc import Callable, Mapping

import msgspec

from webgym.actions import ACTIONS, actions_of
from webgym.browser.contract.commands import InteractionMode
from webgym.context.parsers.errors import Tolerances

LONGEST = 64
"""Longer texts are no number and no pair of numbers."""

_NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?)"
_ONE = re.compile(_NUMBER)
_PAIR = re.compile(rf"(?:\[ *{_NUMBER} *, *{_NUMBER} *\]|\( *{_NUMBER} *, *{_NUMBER} *\))")
_BARE_PAIR = re.compile(rf"{_NUMBER} *, *{_NUMBER}")
_MARK = re.compile(r"\[?([0-9]+)\]?")
_Mender = Callable[[object, Tolerances], object]


def mended(
    arguments: Mapping[str, object], mode: InteractionMode, tolerances: Tolerances
) -> dict[str, object]:
    """The arguments with everything put right that can be."""
    given = dict(arguments)
    if mode == "coordinates" and "coordinate" not in given and {"x", "y"} <= set(given):
        tolerances.note("x_and_y")
        given["coordinate"] = [given.pop("x"), given.pop("y")]
    given["action"] = _verb(given.get("action"), mode, tolerances)
    for name, mend in _MENDERS.items():
        if name in given:
            given[name] = mend(given[name], tolerances)
    return _without_empty(given, mode, tolerances)


def _verb(verb: object, mode: InteractionMode, tolerances: Tolerances) -> object:
    """What the mode calls an action that was named in the other mode's way, or spelt otherwise."""
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


def _time(value: object, tolerances: Tolerances) -> object:
    if isinstance(value, str) and _is_number(value):
        tolerances.note("time_as_text")
        return float(value)
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


def _text(value: object, tolerances: Tolerances) -> object:
    """Of a number with a point nobody knows how it was to be written."""
    if isinstance(value, int) and not isinstance(value, bool):
        tolerances.note("text_as_number")
        return str(value)
    return value


_MENDERS: dict[str, _Mender] = {
    "coordinate": _coordinate,
    "element_id": _element_id,
    "time": _time,
    "keys": _keys,
    "direction": _direction,
    "text": _text,
    "option": _text,
}


def _without_empty(
    given: dict[str, object], mode: InteractionMode, tolerances: Tolerances
) -> dict[str, object]:
    """Less empty arguments that the action does not take, as models write that fill in a form."""
    kind = actions_of(mode).get(str(given["action"]))
    if kind is None:
        return given
    aim = "coordinate" if mode == "coordinates" else "element_id"
    taken = {field.name for field in msgspec.structs.fields(kind)}
    taken = {aim if name == "target" else name for name in taken} | {"action"}
    empty = {name for name, value in given.items() if name not in taken and value in ("", [], {})}
    if empty:
        tolerances.note("empty_arguments")
    return {name: value for name, value in given.items() if name not in empty}


def _is_number(text: str) -> bool:
    return len(text) <= LONGEST and _ONE.fullmatch(text.strip()) is not None
