"""The cabins, their prices, and when they are free.

The site has a calendar of its own, in which it is always the same day, so that a task that names a
date does not go stale.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

import msgspec

from webgym.sites.booking.state import Booking
from webgym.sites.errors import MissingPageError

TODAY = date(2030, 5, 6)
FIRST_NIGHT = date(2030, 5, 10)
LAST_DAY = date(2030, 9, 28)
FEWEST_NIGHTS = 2
MOST_NIGHTS = 14
DOG_FEE = 30
EXTRAS = {
    "breakfast": ("Breakfast basket", 48),
    "firewood": ("Firewood", 12),
    "bicycles": ("Two bicycles", 40),
    "late": ("Late check-out", 25),
}


class Cabin(msgspec.Struct, frozen=True):
    """A cabin. `taken` are stays of others: each from its arrival to before its departure."""

    slug: str
    name: str
    sleeps: int
    rate: int
    dogs: bool
    picture: str
    blurb: str
    features: tuple[str, ...]
    size: str
    taken: tuple[tuple[date, date], ...]


def cabin(slug: str) -> Cabin:
    """Raises MissingPageError."""
    found = BY_SLUG.get(slug)
    if found is None:
        raise MissingPageError("We have no cabin of this name.")
    return found


def is_free(of: Cabin, night: date, bookings: Iterable[Booking]) -> bool:
    """Whether the cabin can be had for the night that begins on a day."""
    if not FIRST_NIGHT <= night < LAST_DAY:
        return False
    own = (
        (date.fromisoformat(each.arrival), date.fromisoformat(each.departure))
        for each in bookings
        if each.cabin == of.slug and each.status == "confirmed"
    )
    return not any(begin <= night < end for begin, end in (*of.taken, *own))


def is_free_for(of: Cabin, arrival: date, departure: date, bookings: Iterable[Booking]) -> bool:
    kept = list(bookings)
    nights = (departure - arrival).days
    return all(is_free(of, arrival + timedelta(days=at), kept) for at in range(nights))


def price(of: Cabin, nights: int, extras: Iterable[str], *, dog: bool) -> int:
    return of.rate * nights + sum(EXTRAS[name][1] for name in extras) + (DOG_FEE if dog else 0)


def shown(day: date) -> str:
    """As in “Mon 6 May 2030”."""
    return f"{day:%a} {day.day} {day:%b %Y}"


CABINS = msgspec.json.decode(
    Path(__file__).with_name("cabins.json").read_bytes(), type=tuple[Cabin, ...]
)
BY_SLUG = {each.slug: each for each in CABINS}
