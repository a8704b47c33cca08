"""The cabins, their prices and free nights, and what a visitor has booked.

The site has its own calendar, in which it is always the same day, so that a task that names a date
stays valid.
"""

from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

import msgspec

from webgym.sites.errors import MissingPageError

BOOKINGS = 30


class BookingDraft(msgspec.Struct, frozen=True):
    """The form as it was typed, before it is checked.

    `sent` names the steps that have been sent; only these show their problems.
    """

    cabin: str = ""
    arrival: str = ""
    departure: str = ""
    guests: str = ""
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    phone: str = ""
    arrival_time: str = ""
    extras: tuple[str, ...] = ()
    dog: bool = False
    terms: bool = False
    sent: tuple[str, ...] = ()


class Booking(msgspec.Struct, frozen=True):
    """A stay. Its reference follows from its content."""

    reference: str
    cabin: str
    arrival: str
    departure: str
    guests: int
    first_name: str
    last_name: str
    email: str
    phone: str
    arrival_time: str
    extras: tuple[str, ...]
    dog: bool
    total: int
    status: str = "confirmed"
    reason: str = ""


FIRST_BOOKING = Booking(
    reference="FC-20417",
    cabin="curlew-cottage",
    arrival="2030-09-07",
    departure="2030-09-12",
    guests=3,
    first_name="Signe",
    last_name="Dahl",
    email="signe.dahl@example.com",
    phone="0441 20 17 33",
    arrival_time="16",
    extras=("firewood",),
    dog=False,
    total=652,
)
"""The booking that every session starts with."""


class BookingLookup(msgspec.Struct, frozen=True):
    """The form that finds a booking, if it found none."""

    reference: str
    last_name: str


class BookingState(msgspec.Struct):
    """The cabins' part of a session.

    `looked_up` are the references of the bookings that the visitor may manage.
    """

    draft: BookingDraft = BookingDraft()
    bookings: list[Booking] = msgspec.field(default_factory=lambda: [FIRST_BOOKING])
    looked_up: list[str] = msgspec.field(default_factory=list)
    lookup: BookingLookup | None = None


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
    """A cabin. `taken` are stays of other guests: arrival included, departure excluded."""

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
    """Whether the cabin is free for the night that starts on a day."""
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
    """The day as in “Mon 6 May 2030”."""
    return f"{day:%a} {day.day} {day:%b %Y}"


CABINS = msgspec.json.decode(
    Path(__file__).with_name("cabins.json").read_bytes(), type=tuple[Cabin, ...]
)
BY_SLUG = {each.slug: each for each in CABINS}
