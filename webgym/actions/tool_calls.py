"""Tool calls: how a model writes actions, in each interaction mode.

Nothing is guessed: a call that lacks an argument, names an unknown one or is out of range raises an
ActionError, whose message is written for the model.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from rollgym.suggestions import advice
from webgym.actions.base import (
    EXCERPT,
    TARGET_FIELDS,
    TARGETS,
    TOOLS,
    Action,
    ActionError,
    Mark,
    Point,
    shorten_line,
)
from webgym.actions.space import ACTIONS
from webgym.browser.contract.commands import InteractionMode


class _Parameter(msgspec.Struct, frozen=True):
    """An argument of an action in one mode. msgspec reads it as `type`."""

    name: str
    field: str
    type: object
    required: bool

    @property
    def schema(self) -> dict[str, object]:
        return msgspec.json.schema(self.type)

    def read(self, value: object) -> object:
        """Raises ActionError."""
        try:
            read: Any = msgspec.convert(value, self.type)
            msgspec.json.encode(read)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            wanted = self.schema["description"]
            raise ActionError(
                f"`{self.name}` must be {wanted}; it was {_excerpt(value)}"
            ) from error
        if self.field not in TARGET_FIELDS:
            return read
        return Mark(read) if isinstance(read, int) else Point(*read)


def actions_of(mode: InteractionMode) -> dict[str, type[Action]]:
    """The actions of a mode, by their names in it."""
    return {kind.verbs[mode]: kind for kind in ACTIONS.values() if mode in kind.verbs}


def read_action(mode: InteractionMode, name: str, arguments: object) -> Action:
    """The action of a call of the tool `name`. Raises ActionError."""
    if name != TOOLS[mode]:
        raise ActionError(f"there is no tool {_excerpt(name)}: use {TOOLS[mode]}")
    if not isinstance(arguments, Mapping):
        raise ActionError(f"`arguments` must be an object; it was {_excerpt(arguments)}")
    given = {key: value for key, value in arguments.items() if value is not None}
    verb = given.pop("action", None)
    kind = actions_of(mode).get(verb) if isinstance(verb, str) else None
    if kind is None:
        raise ActionError(_unknown_action(mode, verb))
    parameters = _parameters(kind, mode)
    known = [parameter.name for parameter in parameters]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ActionError(
            f"`{verb}` has no argument {_excerpt(unknown[0])}; {_accepted(parameters)}"
        )
    missing = [each.name for each in parameters if each.required and each.name not in given]
    if missing:
        raise ActionError(f"`{verb}` needs `{missing[0]}`; {_accepted(parameters)}")
    return kind(
        **{each.field: each.read(given[each.name]) for each in parameters if each.name in given}
    )


def tool_schema(mode: InteractionMode) -> dict[str, object]:
    """The tool as a prompt or a chat request describes it, with all arguments in one object."""
    kinds = actions_of(mode)
    meanings = "\n".join(
        f"- {_signature(verb, _parameters(kind, mode))}: {kind.meaning}"
        for verb, kind in kinds.items()
    )
    properties: dict[str, object] = {"action": {"type": "string", "enum": list(kinds)}}
    for kind in kinds.values():
        for parameter in _parameters(kind, mode):
            # Where two actions share a name, the later type allows more.
            properties[parameter.name] = parameter.schema
    return {
        "type": "function",
        "function": {
            "name": TOOLS[mode],
            "description": f"Act in the web browser. The actions are:\n{meanings}",
            "parameters": {"type": "object", "properties": properties, "required": ["action"]},
        },
    }


def call_schema(mode: InteractionMode) -> dict[str, object]:
    """The exact JSON schema of a call: for constrained decoding, and for checking."""
    calls: list[object] = []
    for verb, kind in actions_of(mode).items():
        parameters = _parameters(kind, mode)
        properties: dict[str, object] = {"action": {"const": verb}}
        properties |= {each.name: each.schema for each in parameters}
        required = ["action", *(each.name for each in parameters if each.required)]
        calls.append(_closed_object(properties, required))
    parts: dict[str, object] = {"name": {"const": TOOLS[mode]}, "arguments": {"oneOf": calls}}
    return _closed_object(parts, list(parts))


def _closed_object(properties: Mapping[str, object], required: list[str]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _parameters(kind: type[Action], mode: InteractionMode) -> list[_Parameter]:
    parameters = []
    for field in msgspec.structs.fields(kind):
        name, wanted = field.name, field.type
        if name in TARGET_FIELDS:
            begin = TARGET_FIELDS[name]
            name, wanted = TARGETS[mode]
            name = f"{begin}{name}"
        elif not field.required:
            wanted = get_args(wanted)[0]  # a call omits it rather than giving null
        needed = mode == "coordinates" and field.name in kind.needs_with_coordinates
        parameters.append(_Parameter(name, field.name, wanted, field.required or needed))
    return parameters


def _signature(verb: str, parameters: list[_Parameter]) -> str:
    names = [each.name if each.required else f"{each.name}?" for each in parameters]
    return f"{verb}({', '.join(names)})"


def _accepted(parameters: list[_Parameter]) -> str:
    """The arguments of an action, for a model that got them wrong."""
    arguments = []
    for each in parameters:
        optional = "" if each.required else "; may be left out"
        arguments.append(f"`{each.name}` ({each.schema['description']}{optional})")
    return f"it takes {', '.join(arguments)}" if arguments else "it takes no arguments"


def _unknown_action(mode: InteractionMode, verb: object) -> str:
    verbs = list(actions_of(mode))
    if verb is None:
        return f"`action` is missing: it is one of {', '.join(verbs)}"
    hint = advice(str(verb)[:EXCERPT], verbs, f"there are {', '.join(verbs)}")
    return f"there is no action {_excerpt(verb)}: {hint}"


def _excerpt(value: object) -> str:
    return shorten_line(repr(value))
