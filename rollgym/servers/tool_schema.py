"""The JSON schema of a tool's parameters, as a model gets it."""

from typing import Any

from pydantic import BaseModel

_VALUES = {"const", "default", "enum", "examples"}
_STRICT = {
    *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum"),
    *("exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems"),
    *("minimum", "multipleOf", "pattern", "properties", "required", "type"),
}


def schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """The schema of an object with these fields and no others."""
    schema = _without_titles(arguments.model_json_schema())
    schema.setdefault("required", [])
    schema["additionalProperties"] = False
    return schema


def is_strict(schema: dict[str, Any]) -> bool:
    """Whether it is of the part of JSON schema that `strict` allows: then a model cannot err.

    There every value has a type, every object names all its fields and requires them, and few
    keywords are known.
    """
    if not schema.keys() <= _STRICT or schema.keys().isdisjoint(("$ref", "anyOf", "type")):
        return False
    fields = schema.get("properties", {})
    if schema.get("type") == "object" and not (
        schema.get("additionalProperties") is False
        and set(schema.get("required", [])) == fields.keys()
    ):
        return False
    items = [schema["items"]] if "items" in schema else []
    parts = [*fields.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", []), *items]
    return all(map(is_strict, parts))


def _without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Pydantic's titles repeat the names, and would cost tokens in every request."""
    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in _VALUES:
            cleaned[key] = value
        elif key in ("properties", "$defs"):
            cleaned[key] = {name: _without_titles(part) for name, part in value.items()}
        elif isinstance(value, dict):
            cleaned[key] = _without_titles(value)
        elif isinstance(value, list):
            cleaned[key] = [
                _without_titles(part) if isinstance(part, dict) else part for part in value
            ]
        else:
            cleaned[key] = value
    return cleaned
