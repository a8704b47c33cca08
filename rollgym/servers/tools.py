"""Tools: methods of a resources server that a model may call.

`@tool` marks an async method. Its type hints become the JSON schema that the model sees and the
check its arguments must pass; its docstring becomes the description, with one line per argument
under `Args:`. A parameter named `state` gets the session's state and is not shown to the model.
Calls run one after another; `@tool(parallel=True)` marks a tool as safe to run beside others.
"""

import inspect
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from inspect import Parameter
from itertools import pairwise
from typing import Annotated, Any, TypeVar, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model

from rollgym.servers.exchange import RefusedRequestError

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
STATE = "state"
RESERVED_NAMES = frozenset(
    (
        *("seed_session", "close_session", "verify", "aggregate_metrics", "healthz"),
        *("config", "directory", "name"),
    )
)
"""Paths and attributes that every resources server has, which are not allowed as names of tools."""
_MARK = "__rollgym_tool__"
_UNNAMED = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_ARGUMENT = re.compile(r"\s*(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
_SCHEMA_VALUES = {"const", "default", "enum", "examples"}
_STRICT_KEYWORDS = {
    *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum"),
    *("exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems"),
    *("minimum", "multipleOf", "pattern", "properties", "required", "type"),
}


class ToolRejection(Exception):  # noqa: N818 - a response to the model, not an error
    """Raised by a tool to tell the model what is wrong with its call."""


def rejection_in(error: Exception) -> ToolRejection | None:
    """The rejection, also out of a task group in which nothing else was raised."""
    if not isinstance(error, ExceptionGroup):
        return error if isinstance(error, ToolRejection) else None
    found = [rejection_in(each) for each in error.exceptions]
    return found[0] if all(found) else None


class ToolDefinitionError(TypeError):
    """A method marked with `@tool` cannot be a tool."""


@overload
def tool(method: F) -> F: ...
@overload
def tool(*, parallel: bool = False) -> Callable[[F], F]: ...
def tool(method: F | None = None, *, parallel: bool = False) -> F | Callable[[F], F]:
    """Mark an async method of a resources server as a tool.

    With `parallel=True`, calls of one turn of the model may run at the same time as their
    neighbours that are marked too. Such a tool cannot have the argument `state`.
    """

    def mark(marked: F) -> F:
        setattr(marked, _MARK, {"parallel": parallel})
        return marked

    return mark if method is None else mark(method)


class ToolMethod:
    """A tool of a server class: its schema and its method."""

    def __init__(
        self, name: str, method: Callable[..., Awaitable[Any]], *, parallel: bool = False
    ) -> None:
        """Raises ToolDefinitionError."""
        if not inspect.iscoroutinefunction(method):
            raise ToolDefinitionError(f"the tool {name} must be an async method")
        self.name = name
        self._method = method
        self.description, texts = parse_docstring(inspect.getdoc(method) or "")
        if not self.description:
            raise ToolDefinitionError(
                f"the tool {name} needs a docstring, which is the description for the model"
            )
        hints, parameters = _hints(method), list(inspect.signature(method).parameters.values())[1:]
        shown = [parameter for parameter in parameters if parameter.name != STATE]
        unknown = texts.keys() - {parameter.name for parameter in parameters}
        if unknown:
            raise ToolDefinitionError(
                f"the docstring of the tool {name} describes {', '.join(sorted(unknown))}, but the "
                "tool has no such argument"
            )
        self.wants_state = len(shown) < len(parameters)
        self.parallel = parallel
        if parallel and self.wants_state:
            raise ToolDefinitionError(
                f"the tool {name} has the argument `state`, so it cannot be `parallel`: only one "
                "call at a time may use the state of a session"
            )
        # Numbered, because an argument may have a name that pydantic cannot give to a field.
        self._fields = {each.name: f"argument_{number}" for number, each in enumerate(shown)}
        fields: dict[str, Any] = {
            self._fields[each.name]: _field(name, each, hints, texts) for each in shown
        }
        try:
            self.arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        except PydanticUserError as error:
            raise ToolDefinitionError(f"the arguments of the tool {name}: {error}") from error

    def schema(self) -> dict[str, Any]:
        """The tool as an entry of `tools` of the Responses API."""
        parameters = schema_of(self.arguments)
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": parameters,
            "strict": is_strict(parameters),
        }

    async def call(self, server: object, body: bytes, state: object) -> object:
        """Call the tool with the JSON of its arguments; returns its result.

        Raises RefusedRequestError for wrong arguments, and the errors of the tool.
        """
        try:
            arguments = self.arguments.model_validate_json(body or b"{}")
        except ValidationError as error:
            raise RefusedRequestError(422, self._complaint(error)) from error
        values = {name: getattr(arguments, field) for name, field in self._fields.items()}
        if self.wants_state:
            values[STATE] = state
        return await self._method(server, **values)

    def _complaint(self, error: ValidationError) -> str:
        problems = "; ".join(
            f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        )
        return f"wrong arguments for {self.name}: {problems}. {self._accepted()}"

    def _accepted(self) -> str:
        """The arguments of the tool, for a model that got them wrong."""
        schema = schema_of(self.arguments)
        arguments = [
            f"{name} ({_kind(part)}{'' if name in schema['required'] else ', optional'})"
            for name, part in schema.get("properties", {}).items()
        ]
        return f"{self.name} takes {', '.join(arguments) or 'no arguments'}"


def _kind(schema: Mapping[str, Any]) -> str:
    """The type of an argument in a few words."""
    if "enum" in schema or "const" in schema:
        return " or ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    kind = str(schema.get("type", "object"))
    return f"array of {_kind(schema['items'])}" if kind == "array" and schema.get("items") else kind


def tools_of(server: type) -> dict[str, ToolMethod]:
    """The tools of a server class by name, in order of definition. Raises ToolDefinitionError."""
    return dict(_find_tools(server))


def tool_schemas(server: type) -> list[dict[str, Any]]:
    """The tools of a server class for `responses_create_params.tools`."""
    return [method.schema() for method in tools_of(server).values()]


def _find_tools(server: type) -> Iterator[tuple[str, ToolMethod]]:
    names = dict.fromkeys(name for part in reversed(server.__mro__) for name in vars(part))
    for name in names:
        method = getattr(server, name, None)
        mark = getattr(method, _MARK, None)
        if mark is not None:
            yield name, ToolMethod(name, method, **mark)  # type: ignore[arg-type]


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and the text under `Args:` for each argument.

    A paragraph after a section that is not indented belongs to the description again.
    """
    description, arguments, argument, section = [], {}, None, None
    for previous, line in pairwise(["", *text.splitlines()]):
        if line.strip() in ("Args:", "Returns:", "Raises:"):
            section, argument = line.strip(), None
        elif section is None or (not previous and line[:1].strip()):
            section = None
            description.append(line)
        elif section == "Args:":
            match = _ARGUMENT.fullmatch(line)
            if match and len(line) - len(line.lstrip()) <= 4:
                argument = match[1]
                arguments[argument] = match[2].strip()
            elif argument and line.strip():
                arguments[argument] = f"{arguments[argument]} {line.strip()}".lstrip()
    return "\n".join(description).strip(), arguments


def _field(
    tool_name: str, parameter: Parameter, hints: Mapping[str, Any], texts: Mapping[str, str]
) -> tuple[Any, Any]:
    """An argument of a tool as a field of a pydantic model."""
    name = parameter.name
    if parameter.kind in _UNNAMED:
        raise ToolDefinitionError(
            f"the tool {tool_name} cannot have {parameter}: models pass arguments by name"
        )
    if name not in hints:
        raise ToolDefinitionError(f"the argument {name} of the tool {tool_name} needs a type hint")
    hint = hints[name]
    if texts.get(name):
        hint = Annotated[hint, Field(description=texts[name])]
    default = ... if parameter.default is Parameter.empty else parameter.default
    return hint, Field(default, alias=name)


def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(method, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"a type hint of the tool {method.__qualname__} cannot be resolved: {error}"
        ) from error


def schema_of(arguments: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, as a model gets it; no other fields are allowed."""
    schema = _without_titles(arguments.model_json_schema())
    schema.setdefault("required", [])
    schema["additionalProperties"] = False
    return schema


def is_strict(schema: dict[str, Any]) -> bool:
    """Whether the schema is in the part of JSON schema that `strict` allows.

    There every value has a type, every object lists all its fields and requires them, and only few
    keywords are allowed. With `strict` the model cannot write invalid arguments.
    """
    if not schema.keys() <= _STRICT_KEYWORDS or schema.keys().isdisjoint(("$ref", "anyOf", "type")):
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
    """Remove pydantic's titles, which repeat the names and would cost tokens in every request."""
    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in _SCHEMA_VALUES:
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
