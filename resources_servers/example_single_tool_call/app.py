"""The smallest environment with a tool: ask for the weather of a city, then tell it."""

import re

import msgspec
from pydantic import field_validator

from resources_servers.example_single_tool_call.reports import (
    CONDITIONS,
    WeatherReport,
    known_city,
    report_of,
)
from rollgym.servers import (
    FunctionCall,
    ResourcesServer,
    Response,
    TaskRow,
    ToolRejection,
    Verdict,
    tool,
)

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")
_MINUS = re.compile(r"[\u2212\u2013]|minus\s+", re.IGNORECASE)


class WeatherTask(TaskRow):
    """`expected_city` is the city whose weather is asked for."""

    expected_city: str

    @field_validator("expected_city")
    @classmethod
    def _has_a_weather_station(cls, city: str) -> str:
        if known_city(city) != city:
            raise ValueError(f"there is no weather station in {city!r}")
        return city


class WeatherServer(ResourcesServer[WeatherTask, None]):
    """Reports are computed from the city's name, so the verifier knows what the agent was told."""

    @tool
    async def get_weather(self, city: str) -> WeatherReport:
        """Look up the present weather in a city.

        Args:
            city: Name of the city, such as Oslo.
        """
        known = known_city(city)
        if known is None:
            raise ToolRejection(f"there is no weather station in {city!r}")
        return report_of(known)

    async def verify(self, task: WeatherTask, response: Response, state: None) -> Verdict:
        report, text = report_of(task.expected_city), response.text
        called = any(_asked_city(call) == report.city for call in response.function_calls)
        condition = _mentions_condition(text, report.condition)
        temperature = _mentions_number(text, report.temperature_celsius)
        success = called and condition and temperature
        return Verdict(
            reward=float(success),
            success=success,
            called_tool=called,
            mentioned_condition=condition,
            mentioned_temperature=temperature,
        )


class _Arguments(msgspec.Struct):
    city: str


def _asked_city(call: FunctionCall) -> str | None:
    """The city of a call that got a report; None of any other call."""
    if call.name != "get_weather":
        return None
    try:
        return known_city(msgspec.json.decode(call.arguments, type=_Arguments).city)
    except msgspec.DecodeError:
        return None


def _mentions_condition(text: str, condition: str) -> bool:
    return re.search(rf"\b{CONDITIONS[condition]}", text, re.IGNORECASE) is not None


def _mentions_number(text: str, number: int) -> bool:
    return number in map(float, _NUMBER.findall(_MINUS.sub("-", text)))
