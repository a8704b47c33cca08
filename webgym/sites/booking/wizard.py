"""The three steps of a booking: the fields of each, and the problems with what was entered."""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from hashlib import sha256

import msgspec

from webgym.sites.booking.cabins import (
    BOOKINGS,
    BY_SLUG,
    EXTRAS,
    FEWEST_NIGHTS,
    FIRST_NIGHT,
    LAST_DAY,
    MOST_NIGHTS,
    Booking,
    BookingDraft,
    BookingState,
    is_free_for,
    price,
    shown,
)
from webgym.sites.site import append_bounded, is_email

DATES, GUESTS, REVIEW = "dates", "guests", "review"
STEPS = {DATES: "Dates", GUESTS: "Your details", REVIEW: "Review"}
GUEST_COUNTS = {"": "Choose", **{str(count): str(count) for count in range(1, 9)}}
ARRIVAL_TIMES = {
    "": "Choose a time",
    "14": "14:00 to 16:00",
    "16": "16:00 to 18:00",
    "18": "18:00 to 20:00",
    "20": "After 20:00 (key box)",
}
_PHONE = re.compile(r"\+?[\d ()-]{6,20}")
Problems = dict[str, str]


def fill_dates(draft: BookingDraft, fields: Mapping[str, str]) -> BookingDraft:
    typed = {name: fields.get(name, "") for name in ("cabin", "arrival", "departure", "guests")}
    return msgspec.structs.replace(draft, **typed, sent=_sent(draft, DATES))


def fill_guests(draft: BookingDraft, fields: Mapping[str, str]) -> BookingDraft:
    names = ("first_name", "last_name", "email", "phone", "arrival_time")
    return msgspec.structs.replace(
        draft,
        **{name: fields.get(name, "") for name in names},
        extras=tuple(name for name in EXTRAS if fields.get(f"extra-{name}")),
        dog=bool(fields.get("dog")),
        sent=_sent(draft, GUESTS),
    )


def fill_review(draft: BookingDraft, fields: Mapping[str, str]) -> BookingDraft:
    return msgspec.structs.replace(
        draft, terms=bool(fields.get("terms")), sent=_sent(draft, REVIEW)
    )


def problems(draft: BookingDraft, step: str, bookings: Sequence[Booking]) -> Problems:
    """The problems of a step, by field."""
    if step == DATES:
        return _date_problems(draft, bookings)
    if step == GUESTS:
        return _guest_problems(draft)
    return {} if draft.terms else {"terms": "Please accept the house rules."}


def unfinished(draft: BookingDraft, bookings: Sequence[Booking], before: str) -> str | None:
    """The first step before this one that still has problems."""
    for step in STEPS:
        if step == before:
            return None
        if problems(draft, step, bookings):
            return step
    return None


def stay(draft: BookingDraft) -> tuple[date, date] | None:
    arrival, departure = _day(draft.arrival), _day(draft.departure)
    return (arrival, departure) if arrival and departure else None


def preview(draft: BookingDraft) -> Booking:
    """The booking that a draft without problems becomes."""
    arrival, departure = date.fromisoformat(draft.arrival), date.fromisoformat(draft.departure)
    nights = (departure - arrival).days
    total = price(BY_SLUG[draft.cabin], nights, draft.extras, dog=draft.dog)
    computed = {"reference": "", "guests": int(draft.guests), "total": total}
    return msgspec.convert(msgspec.structs.asdict(draft) | computed, Booking)


def book(state: BookingState) -> Booking:
    """Turn a draft without problems into a booking."""
    booking = preview(state.draft)
    booking = msgspec.structs.replace(booking, reference=_reference(booking))
    append_bounded(state.bookings, booking, BOOKINGS)
    state.draft = BookingDraft()
    return booking


def _date_problems(draft: BookingDraft, bookings: Sequence[Booking]) -> Problems:
    found = _stay_problems(_day(draft.arrival), _day(draft.departure))
    cabin, dates = BY_SLUG.get(draft.cabin), stay(draft)
    if cabin is None:
        found["cabin"] = "Choose a cabin."
    elif dates and not found and not is_free_for(cabin, *dates, bookings):
        found["cabin"] = f"{cabin.name} is not free for all of these nights."
    if draft.guests not in GUEST_COUNTS or not draft.guests:
        found["guests"] = "Choose the number of guests."
    elif cabin and int(draft.guests) > cabin.sleeps:
        found["guests"] = f"{cabin.name} sleeps {cabin.sleeps} at most."
    return found


def _stay_problems(arrival: date | None, departure: date | None) -> Problems:
    found: Problems = {}
    if arrival is None:
        found["arrival"] = "Choose the day of arrival."
    elif not FIRST_NIGHT <= arrival < LAST_DAY:
        found["arrival"] = f"The season is from {shown(FIRST_NIGHT)} to {shown(LAST_DAY)}."
    if departure is None:
        found["departure"] = "Choose the day of departure."
    elif departure > LAST_DAY:
        found["departure"] = f"The season ends on {shown(LAST_DAY)}."
    elif arrival and not found:
        nights = (departure - arrival).days
        if nights <= 0:
            found["departure"] = "The departure must be after the arrival."
        elif nights < FEWEST_NIGHTS:
            found["departure"] = f"The shortest stay is {FEWEST_NIGHTS} nights."
        elif nights > MOST_NIGHTS:
            found["departure"] = f"The longest stay is {MOST_NIGHTS} nights."
    return found


def _guest_problems(draft: BookingDraft) -> Problems:
    found: Problems = {}
    if not draft.first_name:
        found["first_name"] = "Enter your first name."
    if not draft.last_name:
        found["last_name"] = "Enter your last name."
    if not is_email(draft.email):
        found["email"] = "Enter an email address, such as name@example.com."
    if not _PHONE.fullmatch(draft.phone):
        found["phone"] = "Enter a phone number of at least 6 digits."
    if draft.arrival_time not in ARRIVAL_TIMES or not draft.arrival_time:
        found["arrival_time"] = "Choose when you will arrive."
    cabin = BY_SLUG.get(draft.cabin)
    if draft.dog and cabin and not cabin.dogs:
        found["dog"] = f"Dogs cannot stay at {cabin.name}."
    return found


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _sent(draft: BookingDraft, step: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*draft.sent, step)))


def _reference(booking: Booking) -> str:
    """Equal stays have equal references, so that a recorded solution can name one."""
    digest = sha256(msgspec.json.encode(booking)).digest()
    return f"FC-{int.from_bytes(digest[:4], 'big') % 90_000 + 10_000}"
