"""A grammar, in llama.cpp's notation, that allows one call of a tool and nothing else.

A call is written as the chat template writes it: between tags, as JSON with one blank after each
comma and colon, and with the properties in the order of the schema. So the text of a call that was
sampled is also what the template writes for it in the next prompt. Its tokens may still differ: a
constrained model sometimes spells a word with other tokens than the tokenizer would.

The grammar follows the schema of the tool's parameters as far as a small one can: types, `enum`,
`const`, `anyOf`, required and optional properties, items and their number, lengths of texts, ranges
of integers (of long ranges the sign and the number of digits). The rest, such as a `pattern`, the
environment checks as it does for every model.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from rollgym.servers.responses import JsonObject

CALL_START, CALL_END = "<tool_call>\n", "\n</tool_call>"
LONGEST_TEXT = 200
"""The most characters of a string in a call, so that a small model comes to an end."""
MOST_INTEGERS = 100
"""The most integers of a range that are listed."""
_COMMA = '", "'
_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
_COMMON = {
    "value": 'object | array | string | number | "true" | "false" | "null"',
    "object": '"{" ( string ": " value ( ", " string ": " value )* )? "}"',
    "array": '"[" ( value ( ", " value )* )? "]"',
    "string": rf'"\"" character{{0,{LONGEST_TEXT}}} "\""',
    "character": r'[^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" [0-9a-fA-F]{4} )',
    "number": 'integer ( "." [0-9]{1,12} )? ( [eE] [+-]? [0-9]{1,2} )?',
    "integer": '"-"? ( "0" | [1-9] [0-9]{0,14} )',
    "boolean": '"true" | "false"',
    "null": '"null"',
}


def call_grammar(tools: Sequence[JsonObject], name: str | None = None) -> str:
    """The grammar of one call of a tool, or of the one with this name; tools as in chat."""
    rules = _Rules()
    functions = map(function_of, tools)
    calls = [rules.call(each) for each in functions if name is None or each["name"] == name]
    root = f"{_literal(CALL_START)} ( {' | '.join(calls)} ) {_literal(CALL_END)}"
    lines = {"root": root, **rules.found, **_COMMON}
    return "\n".join(f"{rule} ::= {text}" for rule, text in lines.items())


def function_of(tool: JsonObject) -> JsonObject:
    """The function of a tool, as chat or as Responses has it."""
    function = tool.get("function")
    return function if isinstance(function, dict) else tool


class _Rules:
    """The rules of schemas, each with a name."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def call(self, function: JsonObject) -> str:
        beginning = f'{{"name": {_json(function["name"])}, "arguments": '
        arguments = self.add(function.get("parameters") or {"type": "object"})
        return f"{_literal(beginning)} {arguments} {_literal('}')}"

    def add(self, schema: Any) -> str:
        """The name of the rule for values that match the schema."""
        text = self._text(schema)
        if text in _COMMON:
            return text
        name = f"rule-{len(self.found)}"
        self.found[name] = text
        return name

    def _text(self, schema: Any) -> str:
        text = "value"
        match schema:
            case {"const": value}:
                text = _literal(_json(value))
            case {"enum": [_, *_] as values}:
                text = " | ".join(_literal(_json(value)) for value in values)
            case {"anyOf": [_, *_] as schemas} | {"oneOf": [_, *_] as schemas}:
                text = " | ".join(self.add(each) for each in schemas)
            case {"type": [_, *_] as types}:
                text = " | ".join(self.add({**schema, "type": each}) for each in types)
            case {"type": "object", "properties": dict(properties)} if properties:
                text = self._object(properties, schema.get("required") or [])
            case {"type": "object", "additionalProperties": False}:
                text = _literal("{}")
            case {"type": "array", "items": dict(items)}:
                item = self.add(items)
                text = _array(item, schema.get("minItems"), schema.get("maxItems"))
            case {"type": str(kind)} if kind in _TYPES:
                text = _single(kind, schema)
        return text

    def _object(self, properties: JsonObject, required: Any) -> str:
        """The required properties in the order of the schema, then any of the others in order."""
        members = {
            name: f"{_literal(_json(name) + ': ')} {self.add(each)}"
            for name, each in properties.items()
        }
        needed = [member for name, member in members.items() if name in required]
        others = [member for name, member in members.items() if name not in required]
        if needed:
            return f'"{{" {f" {_COMMA} ".join(needed)}{_any_of(others)} "}}"'
        # One of them comes first, without a comma before it.
        chains = (first + _any_of(others[at + 1 :]) for at, first in enumerate(others))
        return f'"{{" ( {" | ".join(chains)} )? "}}"'


def _single(kind: str, schema: JsonObject) -> str:
    match kind:
        case "string":
            return _string(schema.get("minLength"), schema.get("maxLength"))
        case "integer":
            return _integer(schema.get("minimum"), schema.get("maximum"))
    return kind


def _array(item: str, least: Any, most: Any) -> str:
    least, most = _count(least), _count(most)
    if most == 0:
        return _literal("[]")
    others = f"{max((least or 1) - 1, 0)},{'' if most is None else most - 1}"
    items = f"{item} ( {_COMMA} {item} ){{{others}}}"
    return f'"[" {items} "]"' if least else f'"[" ( {items} )? "]"'


def _string(least: Any, most: Any) -> str:
    least, most = _count(least), _count(most)
    if least is None and most is None:
        return "string"
    longest = LONGEST_TEXT if most is None else min(most, LONGEST_TEXT)
    return rf'"\"" character{{{min(least or 0, longest)},{longest}}} "\""'


def _integer(least: Any, most: Any) -> str:
    least, most = (each if type(each) is int else None for each in (least, most))
    if least is not None and most is not None and 0 <= most - least < MOST_INTEGERS:
        return " | ".join(_literal(str(number)) for number in range(least, most + 1))
    if least is None or least < 0:
        return "integer"
    zero = "" if least else '"0" | '
    digits = 14 if most is None else min(len(str(most)) - 1, 14)
    return f"{zero}[1-9] [0-9]{{0,{digits}}}"


def _count(limit: Any) -> int | None:
    return limit if type(limit) is int and limit >= 0 else None


def _any_of(members: Sequence[str]) -> str:
    return "".join(f" ( {_COMMA} {each} )?" for each in members)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _literal(text: str) -> str:
    """The text as a literal of the grammar, which has the escapes of JSON."""
    return _json(text)
