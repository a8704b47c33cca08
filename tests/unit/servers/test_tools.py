"""Methods become tools: which can, with what schema, and how they are called."""

import asyncio
import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, IntEnum
from functools import wraps
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from rollgym.servers import (
    Answer,
    RefusedRequestError,
    ResourcesServer,
    TaskRow,
    ToolDefinitionError,
    tool,
    tool_schemas,
)
from rollgym.servers.exchange import json_answer
from rollgym.servers.tool_results import ToolImage, encode_result, result_answer, tool_output
from rollgym.servers.tools import ToolMethod, tools_of
from tests.cases import for_each

Json = dict[str, Any]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 2


class Point(BaseModel):
    x: int
    y: int = 0


class ExactPoint(BaseModel):
    """A point that strict schemas allow."""

    model_config = ConfigDict(extra="forbid")

    x: int = Field(description="To the right.")
    y: int


class OpenPath(BaseModel):
    model_config = ConfigDict(extra="forbid")

    points: list[int] = Field(default_factory=list)


def parameters_of(method: Callable[..., Any]) -> Json:
    parameters: Json = ToolMethod("sample", method).schema()["parameters"]
    return parameters


def property_of(hint: Any) -> Json:
    """The schema of one argument with this type hint."""

    async def sample(self: object, value: Any) -> None:
        """Sample."""

    sample.__annotations__["value"] = hint
    schema: Json = parameters_of(sample)["properties"]["value"]
    return schema


def call(method: Callable[..., Any], arguments: object, state: object = None) -> object:
    """What comes of a call with the JSON of these arguments."""
    body = json.dumps(arguments).encode()
    result = asyncio.run(ToolMethod("sample", method).call(None, body, state))
    return json.loads(encode_result(result))


# Schemas.


@for_each(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Literal["c", "f"], {"enum": ["c", "f"], "type": "string"}),
        (Literal["c"], {"const": "c", "type": "string"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (list[int], {"items": {"type": "integer"}, "type": "array"}),
        (
            list[list[str]],
            {"items": {"items": {"type": "string"}, "type": "array"}, "type": "array"},
        ),
        (dict[str, int], {"additionalProperties": {"type": "integer"}, "type": "object"}),
        (Annotated[int, Field(ge=1, le=9)], {"maximum": 9, "minimum": 1, "type": "integer"}),
        (
            Annotated[str, Field(description="A city.", pattern="[A-Z].*")],
            {"description": "A city.", "pattern": "[A-Z].*", "type": "string"},
        ),
        (Colour, {"$ref": "#/$defs/Colour"}),
        (ExactPoint, {"$ref": "#/$defs/ExactPoint"}),
    ],
)
def test_a_type_hint_becomes_the_schema_of_an_argument(hint: Any, schema: Json) -> None:
    assert property_of(hint) == schema


class Weather(ResourcesServer[TaskRow, None]):
    @tool
    async def get_weather(
        self, city: str, unit: Literal["c", "f"] = "c", days: int | None = None
    ) -> str:
        """Look up the weather of a city.

        It may be wrong.

        Args:
            city: Name of the city,
                in English.
            unit: Of the temperature.

        Returns:
            A report.
        """
        return f"{city} {unit} {days}"

    @tool
    async def list_cities(self) -> list[str]:
        """All cities there are."""
        return ["Berlin"]

    async def no_tool(self, city: str) -> str:
        """A method like any other."""
        return city


def test_the_tools_of_a_class_are_those_of_the_responses_api() -> None:
    assert tool_schemas(Weather) == [
        {
            "type": "function",
            "name": "get_weather",
            "description": "Look up the weather of a city.\n\nIt may be wrong.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of the city, in English."},
                    "unit": {
                        "type": "string",
                        "enum": ["c", "f"],
                        "default": "c",
                        "description": "Of the temperature.",
                    },
                    "days": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
            "strict": False,
        },
        {
            "type": "function",
            "name": "list_cities",
            "description": "All cities there are.",
            "parameters": {
                "type": "object",
                "properties": {},
                "required": [],
                "additionalProperties": False,
            },
            "strict": True,
        },
    ]


def test_nested_models_are_described_without_repeating_names() -> None:
    async def draw(self: object, start: Point, colours: list[Colour], title: str) -> None:
        """Draw."""

    assert parameters_of(draw) == {
        "type": "object",
        "properties": {
            "start": {"$ref": "#/$defs/Point"},
            "colours": {"items": {"$ref": "#/$defs/Colour"}, "type": "array"},
            "title": {"type": "string"},
        },
        "required": ["start", "colours", "title"],
        "additionalProperties": False,
        "$defs": {
            "Colour": {"enum": ["red", "blue"], "type": "string"},
            "Point": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
        },
    }


def test_values_in_a_schema_are_left_as_they_are() -> None:
    async def write(self: object, head: dict[str, str] = {"title": "Untitled"}) -> None:  # noqa: B006
        """Write."""

    assert parameters_of(write)["properties"]["head"]["default"] == {"title": "Untitled"}


@for_each(
    "hint",
    [
        str,
        Colour,
        int | None,
        list[ExactPoint],
        ExactPoint | None,
        Literal["a", "b"],
        Annotated[int, Field(ge=1, multiple_of=3)],
    ],
)
def test_a_schema_that_leaves_nothing_open_is_strict(hint: Any) -> None:
    async def sample(self: object, value: Any) -> None:
        """Sample."""

    sample.__annotations__["value"] = hint
    assert ToolMethod("sample", sample).schema()["strict"] is True


@for_each(
    "hint",
    [
        Any,
        list,
        list[Any],
        dict[str, int],
        dict,
        Point,
        list[Point],
        Point | None,
        OpenPath,
        tuple[int, str],
        set[int],
        Annotated[str, Field(min_length=1)],
    ],
)
def test_a_schema_that_strict_does_not_allow_is_not_called_strict(hint: Any) -> None:
    async def sample(self: object, value: Any) -> None:
        """Sample."""

    sample.__annotations__["value"] = hint
    assert ToolMethod("sample", sample).schema()["strict"] is False


def test_an_argument_that_may_be_left_out_is_not_strict() -> None:
    async def sample(self: object, value: int = 3) -> None:
        """Sample."""

    assert ToolMethod("sample", sample).schema()["strict"] is False


def test_the_docstring_wins_over_the_hint() -> None:
    async def sample(
        self: object,
        one: Annotated[int, Field(description="From the hint.")],
        two: Annotated[int, Field(description="From the hint.")],
    ) -> None:
        """Sample.

        Args:
            one: From the docstring.
        """

    properties = parameters_of(sample)["properties"]
    assert properties["one"]["description"] == "From the docstring."
    assert properties["two"]["description"] == "From the hint."


# Definitions.


def test_a_tool_must_be_async() -> None:
    with pytest.raises(ToolDefinitionError, match="the tool look must be an async method"):

        class _Server(ResourcesServer[TaskRow, None]):
            @tool  # type: ignore[type-var]
            def look(self) -> str:
                """Look."""
                return ""


def test_a_tool_needs_a_docstring() -> None:
    async def sample(self: object) -> None: ...

    with pytest.raises(ToolDefinitionError, match="needs a docstring"):
        ToolMethod("sample", sample)


def test_an_argument_needs_a_type_hint() -> None:
    async def sample(self: object, city) -> None:  # type: ignore[no-untyped-def]
        """Sample."""

    with pytest.raises(ToolDefinitionError, match="the argument city of the tool sample needs a"):
        ToolMethod("sample", sample)


def test_arguments_are_given_by_name() -> None:
    async def some(self: object, *cities: str) -> None:
        """Sample."""

    async def any_(self: object, **cities: str) -> None:
        """Sample."""

    async def first(self: object, city: str, /) -> None:
        """Sample."""

    for method, named in ((some, r"\*cities"), (any_, r"\*\*cities"), (first, "city")):
        with pytest.raises(ToolDefinitionError, match=f"the tool sample cannot have {named}"):
            ToolMethod("sample", method)


def test_a_hint_that_cannot_be_resolved_is_named() -> None:
    async def sample(self: object, city: "Town") -> None:  # type: ignore[name-defined]  # noqa: F821
        """Sample."""

    with pytest.raises(ToolDefinitionError, match="cannot be resolved: name 'Town'"):
        ToolMethod("sample", sample)


def test_a_hint_that_is_no_json_is_refused() -> None:
    class Socket: ...

    async def sample(self: object, socket: Any) -> None:
        """Sample."""

    sample.__annotations__["socket"] = Socket
    with pytest.raises(ToolDefinitionError, match="the arguments of the tool sample: .*Socket"):
        ToolMethod("sample", sample)


@for_each(
    "name",
    [
        *("verify", "seed_session", "close_session", "close", "start", "handle", "health", "route"),
        *("healthz", "aggregate_metrics", "name", "config", "directory"),
    ],
)
def test_a_tool_cannot_take_the_name_of_something_else(name: str) -> None:
    async def method(self: object) -> str:
        """Do it."""
        return ""

    with pytest.raises(ToolDefinitionError, match=f"a tool cannot be called {name}: "):
        type("Named", (ResourcesServer,), {name: tool(method)})


def test_a_state_needs_a_server_that_has_one() -> None:
    with pytest.raises(
        ToolDefinitionError,
        match="the tool add has the argument `state`, but Stateless has no state",
    ):

        class Stateless(ResourcesServer[TaskRow, None]):
            @tool
            async def add(self, state: int) -> str:
                """Add."""
                return ""


# Inheritance.


class Forecast(Weather):
    @tool
    async def forecast(self, city: str) -> str:
        """Guess."""
        return city

    @tool
    async def list_cities(self) -> list[str]:
        """The cities of France."""
        return ["Paris"]


class Quiet(Weather):
    async def get_weather(
        self, city: str, unit: Literal["c", "f"] = "c", days: int | None = None
    ) -> str:
        return ""


class Maps:
    @tool
    async def locate(self, city: str) -> str:
        """Find on the map."""
        return city


class Atlas(Maps, ResourcesServer[TaskRow, None]):
    pass


def test_tools_are_inherited_in_the_order_of_their_definition() -> None:
    assert list(tools_of(Forecast)) == ["get_weather", "list_cities", "forecast"]


def test_a_tool_can_be_written_anew() -> None:
    method = tools_of(Forecast)["list_cities"]
    assert method.description == "The cities of France."
    assert asyncio.run(method.call(None, b"", None)) == ["Paris"]


def test_a_tool_that_is_overridden_without_the_mark_is_none() -> None:
    assert list(tools_of(Quiet)) == ["list_cities"]


def test_tools_may_come_from_a_class_that_is_no_server() -> None:
    assert list(tools_of(Atlas)) == ["locate"]


def test_a_decorated_method_is_still_a_tool() -> None:
    def counted(method: Any) -> Any:
        @wraps(method)
        async def wrapper(*arguments: Any, **named: Any) -> Any:
            return await method(*arguments, **named)

        return wrapper

    class Counted(ResourcesServer[TaskRow, None]):
        @tool
        @counted
        async def outer(self, city: str) -> str:
            """Sample."""
            return city

        @counted
        @tool
        async def inner(self, city: str) -> str:
            """Sample."""
            return city

    for schema in tool_schemas(Counted):
        assert schema["parameters"]["required"] == ["city"]
    assert asyncio.run(tools_of(Counted)["inner"].call(None, b'{"city": "Rome"}', None)) == "Rome"


# Calls.


def test_arguments_arrive_as_their_types() -> None:
    async def sample(
        self: object,
        colour: Colour,
        size: Size,
        points: list[Point],
        limit: int | None,
        ratio: float = 0.5,
    ) -> list[str]:
        """Sample."""
        return [repr(each) for each in (colour, size, points, limit, ratio)]

    arguments = {"colour": "red", "size": 2, "points": [{"x": 1}], "limit": None}
    assert call(sample, arguments) == [
        repr(Colour.RED),
        repr(Size.LARGE),
        repr([Point(x=1)]),
        "None",
        "0.5",
    ]


def test_a_default_that_can_be_changed_is_not_shared_between_calls() -> None:
    async def sample(self: object, words: list[str] = []) -> int:  # noqa: B006
        """Sample."""
        words.append("more")
        return len(words)

    method = ToolMethod("sample", sample)
    assert [asyncio.run(method.call(None, b"{}", None)) for _ in range(3)] == [1] * 3


def test_a_state_is_given_by_the_server_and_never_by_the_model() -> None:
    async def sample(self: object, state: list[int], amount: int) -> int:
        """Sample.

        Args:
            state: What is there.
            amount: How much.
        """
        return sum(state) + amount

    assert list(parameters_of(sample)["properties"]) == ["amount"]
    assert call(sample, {"amount": 1}, [10]) == 11
    with pytest.raises(RefusedRequestError, match="state: "):
        call(sample, {"amount": 1, "state": [100]}, [10])


@for_each(
    "name", ["json", "schema", "copy", "dict", "model_config", "model_dump", "_private", "self_"]
)
@pytest.mark.filterwarnings("error")
def test_an_argument_may_have_any_name(name: str) -> None:
    namespace: Json = {}
    exec(f'async def sample(self, {name}: int):\n    "Sample."\n    return {name} + 1', namespace)
    method = namespace["sample"]
    assert list(parameters_of(method)["properties"]) == [name]
    assert call(method, {name: 1}) == 2
    with pytest.raises(RefusedRequestError, match=f"wrong arguments for sample: {name}: "):
        call(method, {name: "x"})


@for_each(
    ("arguments", "complaint"),
    [
        ({}, "x: Field required"),
        ({"x": "three"}, "x: Input should be a valid integer"),
        ({"x": 1, "z": 2}, "z: Extra inputs are not permitted"),
        ({"x": 1, "argument_1": {"x": 1}}, "argument_1: Extra inputs are not permitted"),
        ({"x": 1, "p": {"x": "a"}}, "p.x: Input should be a valid integer"),
        ([], "arguments: "),
        (None, "arguments: "),
    ],
)
def test_a_complaint_names_the_argument(arguments: object, complaint: str) -> None:
    async def sample(self: object, x: int, p: Point | None = None) -> None:
        """Sample."""

    with pytest.raises(RefusedRequestError) as raised:
        call(sample, arguments)
    assert raised.value.status == 422
    assert str(raised.value).startswith("wrong arguments for sample: ")
    assert complaint in str(raised.value)


def test_all_that_is_wrong_is_named_at_once() -> None:
    async def sample(self: object, x: int, y: int) -> None:
        """Sample."""

    with pytest.raises(RefusedRequestError) as raised:
        call(sample, {"x": "a"})
    assert "x: " in str(raised.value)
    assert "; y: " in str(raised.value)


# Results.


@dataclass
class Record:
    name: str


@for_each(
    ("result", "body"),
    [
        ("Grüße", '"Grüße"'),
        ("", '""'),
        (3, "3"),
        (0.5, "0.5"),
        (True, "true"),
        (None, "null"),
        ({"a": [1]}, '{"a":[1]}'),
        ([], "[]"),
        (Point(x=1), '{"x":1,"y":0}'),
        ([Point(x=1)], '[{"x":1,"y":0}]'),
        ({"p": Point(x=1), "c": Colour.RED}, '{"p":{"x":1,"y":0},"c":"red"}'),
        (Record("Ann"), '{"name":"Ann"}'),
        (datetime(2026, 1, 2, tzinfo=UTC), '"2026-01-02T00:00:00Z"'),
        (float("nan"), "null"),
    ],
)
def test_a_result_is_written_as_json(result: object, body: str) -> None:
    assert encode_result(result).decode() == body


@for_each("result", [object(), {"a": object()}, {(1, 2): 3}, "\ud800"])
def test_a_result_that_is_no_json_is_an_error(result: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode_result(result)


@for_each(
    ("result", "content_type", "text"),
    [
        ("Grüße", "text/plain; charset=utf-8", "Grüße"),
        ('"quoted"', "text/plain; charset=utf-8", '"quoted"'),
        (Colour.RED, "text/plain; charset=utf-8", "red"),
        (datetime(2026, 1, 2, tzinfo=UTC), "text/plain; charset=utf-8", "2026-01-02T00:00:00Z"),
        ("half \ud800", "text/plain; charset=utf-8", "half ?"),
        (3, "application/json", "3"),
        (["a", "b"], "application/json", '["a","b"]'),
    ],
)
def test_a_text_is_answered_as_text_and_the_model_reads_what_is_answered(
    result: object, content_type: str, text: str
) -> None:
    answer = result_answer(result)
    assert (answer.content_type, answer.text, tool_output(answer)) == (content_type, text, text)


@for_each(
    ("body", "text"),
    [
        (b'"hello"', '"hello"'),
        (b'{"a": "b"}', '{"a": "b"}'),
        (b"", ""),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b'[{"type": "input_text", "text": "an image"}]', None),
        (b'[{"type": "image"}]', None),
        (b'[{"type": "input_image", "image_url": "file:///etc/passwd"}]', None),
        (b'[{"type": "input_image", "image_url": "data:image/png;base64,AA=="}, 3]', None),
        (b"[" * 100_000 + b'"image"', None),
    ],
)
def test_the_model_reads_the_characters_of_any_other_answer(body: bytes, text: str | None) -> None:
    assert tool_output(Answer(200, body)) == (body.decode() if text is None else text)


PNG = b"\x89PNG\r\n\x1a\n..."
SEEN = {
    "type": "input_image",
    "image_url": f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
    "detail": "auto",
}
ENCODED = base64.b64encode(PNG).decode()


@for_each(
    ("answer", "items"),
    [
        (result_answer(ToolImage(PNG)), [SEEN]),
        (
            result_answer(["The page:", ToolImage(PNG, detail="low"), {"at": 3}]),
            [
                {"type": "input_text", "text": "The page:"},
                {**SEEN, "detail": "low"},
                {"type": "input_text", "text": '{"at":3}'},
            ],
        ),
        (Answer(200, PNG, "image/png"), [SEEN]),
        (
            json_answer({"content": [{"type": "image", "data": ENCODED, "mimeType": "image/png"}]}),
            [SEEN],
        ),
        (json_answer({"type": "image_url", "image_url": {"url": SEEN["image_url"]}}), [SEEN]),
        (
            json_answer(
                [{"type": "image", "source": {"media_type": "image/png", "data": ENCODED}}]
            ),
            [SEEN],
        ),
    ],
)
def test_images_reach_the_model_in_whatever_form_a_server_sends_them(
    answer: Answer, items: list[Json]
) -> None:
    assert tool_output(answer) == items


def test_an_image_of_unknown_type_needs_its_name() -> None:
    with pytest.raises(ValueError, match="name its type"):
        ToolImage(b"II*\x00")
    assert ToolImage(b"II*\x00", "image/tiff").media_type == "image/tiff"


def test_a_tool_with_state_cannot_be_parallel() -> None:
    async def sample(self: object, state: object) -> None:
        """Sample."""

    with pytest.raises(ToolDefinitionError, match="sample has the argument `state`, so it cannot"):
        ToolMethod("sample", sample, parallel=True)
