"""The smallest environment with a tool: look up the weather of a city, then tell it.

The weather is invented: the report of a city follows from its name, so it is always the same, and
the verifier knows what the tool returned.
"""

import re
from functools import cache
from random import Random

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
from rollgym.servers.final_answer import answer_text

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
    "sunny": ("sun", "sunny", "sunshine"),
    "cloudy": ("cloud", "cloudy", "clouds", "cloudiness"),
    "windy": ("wind", "windy", "winds"),
    "foggy": ("fog", "foggy"),
    "rainy": ("rain", "rainy", "rains", "raining", "rainfall"),
    "snowy": ("snow", "snowy", "snows", "snowing", "snowfall"),
}
"""Each condition with the words for it."""

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


LONGEST_REPORT = 10_000
_BY_WORD = {word: condition for condition, words in CONDITIONS.items() for word in words}
_WORD = re.compile(rf"\b(?:{'|'.join(_BY_WORD)})\b")
_NUMBER = re.compile(
    r"(?<![\w.])(-?\d{1,9}(?:\.\d{1,9})?)"
    r"(\s?(?:[\u00b0\u00ba]|degrees?\b)?\s?(?:c|f|celsius|fahrenheit)\b"
    r"|\s?(?:[\u00b0\u00ba]|degrees?\b))?"
)
_LIST = re.compile(r"[\s,;/|-]{0,9}(?:(?:or|and|to)[\s-]{1,9})?")
_MINUS = re.compile(r"[\u2212\u2013]|minus\s+")


def named_conditions(text: str) -> set[str]:
    """Every condition that a text in small letters names."""
    return {_BY_WORD[word] for word in _WORD.findall(text)}


def named_temperatures(text: str) -> set[float]:
    """Every temperature that a text in small letters names, in degrees Celsius.

    If some numbers have a unit, the others are not temperatures. In a list or a range, the unit
    after the last number is that of all. Fahrenheit is a translation.
    """
    with_unit: set[float] = set()
    without_unit: set[float] = set()
    if "minus" in text or not text.isascii():
        text = _MINUS.sub("-", text)
    start, unit = len(text), ""
    for found in reversed(list(_NUMBER.finditer(text))):
        number, own_unit = found.groups()
        if own_unit or not _LIST.fullmatch(text, found.end(), start):
            unit = own_unit or ""
        start = found.start()
        if "f" not in unit:
            (with_unit if unit else without_unit).add(float(number))
    return with_unit or without_unit


class WeatherTask(TaskRow):
    """`expected_city` is the city that the question is about."""

    expected_city: str

    @field_validator("expected_city")
    @classmethod
    def _has_a_weather_station(cls, city: str) -> str:
        if _BY_NAME.get(city.casefold()) != city:
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
        report = report_of(task.expected_city)
        text = answer_text(response.text)[-LONGEST_REPORT:].lower()
        called = any(_asked_city(call) == report.city for call in response.function_calls)
        # One of each: an answer that names all of them reports nothing.
        condition = named_conditions(text) == {report.condition}
        temperature = named_temperatures(text) == {report.temperature_celsius}
        success = called and condition and temperature
        return Verdict(
            reward=float(success),
            success=success,
            called_tool=called,
            mentioned_condition=condition,
            mentioned_temperature=temperature,
        )


def _asked_city(call: FunctionCall) -> str | None:
    """The city of a call that got a report; None for any other call."""
    if call.name != "get_weather":
        return None
    city = (call.parsed_arguments or {}).get("city")
    return known_city(city) if isinstance(city, str) else None
