"""Made-up weather: the report of a city is computed from its name, so it is always the same."""

from functools import cache
from random import Random

from pydantic import BaseModel, ConfigDict

from rollgym.records import derive_seed

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
"""Each with how the words for it begin: rain, rainy, raining."""

_BY_NAME = {city.casefold(): city for city in CITIES}


class WeatherReport(BaseModel):
    """What the weather station of a city says."""

    model_config = ConfigDict(frozen=True)

    city: str
    condition: str
    temperature_celsius: int


def known_city(name: str) -> str | None:
    """The city of this name, however it is written; None where there is none."""
    return _BY_NAME.get(" ".join(name.split()).casefold())


@cache
def report_of(city: str) -> WeatherReport:
    """The report of a city of `CITIES`. It snows only where it freezes."""
    random = Random(derive_seed(0, "weather", city))  # noqa: S311 - reproducible on purpose
    temperature = random.randint(-12, 36)
    impossible = "rainy" if temperature < 0 else "snowy"
    condition = random.choice([each for each in CONDITIONS if each != impossible])
    return WeatherReport(city=city, condition=condition, temperature_celsius=temperature)
