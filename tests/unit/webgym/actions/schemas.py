"""As much of JSON Schema as our schemas use; anything else in one is an error."""

import re
from collections.abc import Callable
from typing import Any

_KINDS: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda kind, value: _KINDS[kind](value),
    "const": lambda wanted, value: bool(value == wanted),
    "enum": lambda allowed, value: value in allowed,
    "minimum": lambda bound, value: bool(value >= bound),
    "maximum": lambda bound, value: bool(value <= bound),
    "minLength": lambda bound, value: len(value) >= bound,
    "maxLength": lambda bound, value: len(value) <= bound,
    "minItems": lambda bound, value: len(value) >= bound,
    "maxItems": lambda bound, value: len(value) <= bound,
    "pattern": lambda pattern, value: re.search(pattern, value) is not None,
    "items": lambda schema, value: all(accepts(schema, item) for item in value),
    "required": lambda names, value: all(name in value for name in names),
    "oneOf": lambda schemas, value: sum(accepts(schema, value) for schema in schemas) == 1,
}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Whether the value is what the schema describes."""
    rest = {name: rule for name, rule in schema.items() if name != "description"}
    properties = rest.pop("properties", None)
    closed = rest.pop("additionalProperties", True) is False
    if "type" in rest and not _KINDS[rest["type"]](value):
        return False
    if properties is not None:
        if closed and not set(value) <= set(properties):
            return False
        if not all(accepts(properties[name], value[name]) for name in value if name in properties):
            return False
    return all(_CHECKS[name](rule, value) for name, rule in rest.items())
