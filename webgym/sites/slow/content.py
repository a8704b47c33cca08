"""The content of the slow site: measurements, a log, a report, and storms."""

from random import Random

import msgspec

READINGS = (
    ("Sule Reef", "2.41 m", "+0.18 m", "9.6 °C"),
    ("Sule Haven", "2.17 m", "+0.15 m", "9.9 °C"),
    ("Fennaby", "1.86 m", "+0.11 m", "10.3 °C"),
    ("Port Selwick", "1.58 m", "+0.09 m", "10.8 °C"),
    ("Tarrowmouth", "2.73 m", "+0.22 m", "9.1 °C"),
    ("Wick Holm", "1.32 m", "+0.05 m", "11.2 °C"),
)
LOG = (
    "06:02 Lamp out. Sky clear, sea calm.",
    "07:40 Supply boat delayed by fog.",
    "09:15 Wind gauge cleaned of gull.",
    "11:34 High water, 3.87 m.",
    "13:20 Supply boat in. Two crates of oil, one of tea, no mail.",
    "15:05 Buoy 7 reported adrift by a trawler.",
    "16:50 Buoy 7 secured by the pilot cutter.",
    "19:30 Lamp lit by Keeper Halvorsen.",
    "21:00 Last ferry cancelled because of wind.",
    "22:45 Gust of 34 m/s, the strongest of the month.",
)
REPORT = (
    "Monthly report 5/2030, number TS-7731",
    "Mean water level: 2.08 m. Highest: 4.12 m, on the 19th.",
    "Hours of fog: 61. Ships counted: 284.",
)
STORMS_AT_A_TIME = 8
_NAMES = (
    "Agda", "Bror", "Clara", "Dagny", "Egil", "Frida", "Gorm", "Hilda", "Isak", "Judith",
    "Knut", "Liv", "Maren", "Nils", "Oda", "Peder", "Ragna", "Sten", "Tora", "Ulf",
)  # fmt: skip


class Storm(msgspec.Struct, frozen=True):
    title: str
    text: str


def _storms() -> tuple[Storm, ...]:
    random = Random(1970)  # noqa: S311 - the numbers must repeat
    found = []
    for at in range(60):
        year, gust, hours = 2029 - at, random.randint(29, 44), random.randint(6, 39)
        name = _NAMES[at % len(_NAMES)]
        damage = random.choice(("no damage", "roofs damaged", "a pier lost", "ferries cancelled"))
        text = f"{hours} hours, strongest gust {gust} m/s, {damage}."
        found.append(Storm(f"Storm {name} ({year})", text))
    # One stands out, so that there is something to look for.
    found[41] = Storm("Storm Bror (1988)", "52 hours, strongest gust 51 m/s, the lamp was lost.")
    return tuple(found)


STORMS = _storms()
