"""The smallest environment with a tool: look up the weather of a city, then tell it.

The weather is invented: the report of a city follows from its name, so it is always the same, and
the verifier knows what the tool returned.
"""

import re
from functools import cache
from random import Random

import msgspec
from pydantic import BaseModel, ConfigDict, field_validator

from rollgym.records import derive_seed
from rollgym.servers import (
    FunctionCall,
    ResourcesServer,
    Response,
    TaskRow,
    ToolRejection,
    Verdict,
    tool,
)

# fmt: off
CITIES = (
    "Accra", "Ankara", "Athens", "Bergen", "Berlin", "Bogota", "Boston", "Cairo", "Chennai",
    "Dakar", "Denver", "Dublin", "Hanoi", "Havana", "Helsinki", "Jakarta", "Kyoto", "La Paz",
    "Lima", "Lisbon", "Lusaka", "Lyon", "Madrid", "Manila", "Montreal", "Nairobi", "New Delhi",
    "Oslo", "Perth", "Prague", "Quito", "Reykjavik", "Riga", "San Diego", "Seoul", "Sofia",
    "Tbilisi", "Tunis", "Vienna", "Warsaw", "Wellington",
)
# fmt: on
CONDITIONS = {
    "sunny": "sun",
    "cloudy": "cloud",
    "windy": "wind",
    "foggy": "fog",
    "rainy": "rain",
    "snowy": "snow",
}
"""Each condition with the start of the words for it: rain, rainy, raining."""

_BY_NAME = {city.casefold(): city for city in CITIES}


class WeatherReport(BaseModel):
    """The report of the weather station of a city."""

    model_config = ConfigDict(frozen=True)

    city: str
    condition: str
    temperature_celsius: int


def known_city(name: str) -> str | None:
    """The city with this name, with any capital letters and blanks; None for an unknown name."""
    return _BY_NAME.get(" ".join(name.split()).casefold())


@cache
def report_of(city: str) -> WeatherReport:
    """The report of a city of `CITIES`. It snows only where it freezes."""
    random = Random(derive_seed(0, "weather", city))  # noqa: S311 - reproducible on purpose
    temperature = random.randint(-12, 36)
    impossible = "rainy" if temperature < 0 else "snowy"
    condition = random.choice([each for each in CONDITIONS if each != impossible])
    return WeatherReport(city=city, condition=condition, temperature_celsius=temperature)


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")
_MINUS = re.compile(r"[\u2212\u2013]|minus\s+", re.IGNORECASE)


class WeatherTask(TaskRow):
    """`expected_city` is the city that the question is about."""

    expected_city: str

    @field_validator("expected_city")
    @classmethod
    def _has_a_weather_station(cls, city: str) -> str:
        if known_city(city) != city:
            raise ValueError(f"there is no weather station in {city!r}")
        return city


class WeatherServer(ResourcesServer[WeatherTask, None]):
    """Reports the weather, and checks the call and the answer."""

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
        words = rf"\b{CONDITIONS[report.condition]}"
        condition = re.search(words, text, re.IGNORECASE) is not None
        numbers = map(float, _NUMBER.findall(_MINUS.sub("-", text)))
        temperature = report.temperature_celsius in numbers
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
    """The city of a call that got a report; None for any other call."""
    if call.name != "get_weather":
        return None
    try:
        return known_city(msgspec.json.decode(call.arguments, type=_Arguments).city)
    except msgspec.DecodeError:
        return None
