"""The pages that show cabins, and the frame and parts that all pages of the site share."""

from calendar import Calendar
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path

from webgym.sites.booking.cabins import (
    BY_SLUG,
    CABINS,
    EXTRAS,
    FIRST_NIGHT,
    LAST_DAY,
    TODAY,
    Booking,
    BookingDraft,
    Cabin,
    is_free,
    is_free_for,
    shown,
)
from webgym.sites.booking.wizard import ARRIVAL_TIMES, GUEST_COUNTS, STEPS, stay
from webgym.sites.site import Content, Markup, Template, options

TEMPLATES = Path(__file__).with_name("templates")
INVALID = Markup(' aria-invalid="true"')
_FRAME = Template.of(TEMPLATES / "frame.html")
_STEPS = Template('<ol class="steps">{items}</ol>')
_STEP = Template("<li{now}>{text}</li>")
_NOW = Markup(' class="now" aria-current="step"')
_NOTE = Template('<p class="note" role="alert">{text}</p>')
_ERROR = Template('<span class="error" role="alert">{text}</span>')
_ROW = Template("<tr><th>{name}</th><td>{value}</td></tr>")


def frame(title: str, body: Content) -> Markup:
    """The whole page, with this body."""
    return _FRAME(title=title, body=body, today=shown(TODAY))


def steps(current: str) -> Markup:
    return _STEPS(
        items=[
            _STEP(text=text, now=_NOW if step == current else None) for step, text in STEPS.items()
        ]
    )


def complaint(problems: Mapping[str, str]) -> Content:
    if not problems:
        return None
    many = len(problems) > 1
    return _NOTE(text=f"Please correct {len(problems)} {'fields' if many else 'field'} below.")


def note(text: str) -> Content:
    return _NOTE(text=text) if text else None


def error(problems: Mapping[str, str], field: str) -> Content:
    return _ERROR(text=problems[field]) if field in problems else None


def rows(pairs: Iterable[tuple[str, str]]) -> list[Markup]:
    return [_ROW(name=name, value=value) for name, value in pairs]


def described(booking: Booking) -> list[tuple[str, str]]:
    """The rows that describe a booking."""
    arrival = date.fromisoformat(booking.arrival)
    departure = date.fromisoformat(booking.departure)
    extras = [EXTRAS[name][0] for name in booking.extras] + ["Dog"] * booking.dog
    return [
        ("Cabin", BY_SLUG[booking.cabin].name),
        ("Arrival", f"{shown(arrival)}, {ARRIVAL_TIMES[booking.arrival_time]}"),
        ("Departure", shown(departure)),
        ("Nights", str((departure - arrival).days)),
        ("Guests", str(booking.guests)),
        ("Name", f"{booking.first_name} {booking.last_name}"),
        ("Contact", f"{booking.email}, {booking.phone}"),
        ("Extras", ", ".join(extras) or "None"),
        ("Total", f"${booking.total}"),
    ]


_HOME = Template.of(TEMPLATES / "home.html")
_CABINS = Template.of(TEMPLATES / "cabins.html")
_CABIN = Template.of(TEMPLATES / "cabin.html")
_RULES = Template.of(TEMPLATES / "rules.html")
_CARD = Template(
    '<article class="card{off}"><img src="/booking/static/{picture}.svg" alt=""><div>'
    '<h3><a href="/booking/cabin/{slug}">{name}</a></h3><p>{blurb}</p>'
    '<p>Sleeps {sleeps} · {dogs} · <span class="rate">${rate} per night</span></p>{badge}'
    "</div></article>"
)
_BADGE = Template('<span class="badge{kind}">{text}</span>')
_ITEM = Template("<li>{text}</li>")
_MONTH_LINK = Template('<a href="/booking/cabin/{slug}?month={month}">{text}</a>')
_NO_MONTH = Template("<span></span>")
_WEEK = Template("<tr>{days}</tr>")
_DAY = Template('<td class="{kind}" aria-label="{label}: {kind}">{number}</td>')
_NO_DAY = Template("<td></td>")


def home() -> Markup:
    body = _HOME(
        first=shown(FIRST_NIGHT),
        last=shown(LAST_DAY),
        min=FIRST_NIGHT.isoformat(),
        max=LAST_DAY.isoformat(),
        guests=options(GUEST_COUNTS.items(), "2"),
        cards=[_card(each) for each in CABINS],
    )
    return frame("Cabins by the sea", body)


def cabins_page(wanted: BookingDraft, bookings: Sequence[Booking]) -> Markup:
    """All the cabins; for a stay it says which of them are free."""
    dates = stay(wanted)
    if dates and FIRST_NIGHT <= dates[0] < dates[1] <= LAST_DAY:
        guests = int(wanted.guests or 1)
        free = {
            each.slug
            for each in CABINS
            if is_free_for(each, *dates, bookings) and each.sleeps >= guests
        }
        summary = (
            f"{len(free)} of {len(CABINS)} cabins are free from {shown(dates[0])} to "
            f"{shown(dates[1])}, {(dates[1] - dates[0]).days} nights."
        )
    else:
        free = None
        summary = "Choose an arrival and a later departure to see which cabins are free."
    body = _CABINS(
        min=FIRST_NIGHT.isoformat(),
        max=LAST_DAY.isoformat(),
        arrival=wanted.arrival,
        departure=wanted.departure,
        guests=options(GUEST_COUNTS.items(), wanted.guests),
        summary=summary,
        cards=[_card(each, None if free is None else each.slug in free) for each in CABINS],
    )
    return frame("Cabins", body)


def cabin_page(of: Cabin, month: date, bookings: Sequence[Booking]) -> Markup:
    body = _CABIN(
        slug=of.slug,
        name=of.name,
        picture=of.picture,
        blurb=of.blurb,
        features=[_ITEM(text=text) for text in of.features],
        sleeps=of.sleeps,
        size=of.size,
        dogs="Welcome" if of.dogs else "Not allowed",
        rate=of.rate,
        month=f"{month:%B %Y}",
        previous=_month_link(of, month - timedelta(days=1), "← Previous"),
        next=_month_link(of, month + timedelta(days=31), "Next →"),
        weeks=_weeks(of, month, bookings),
    )
    return frame(of.name, body)


def rules_page() -> Markup:
    return frame("House rules", _RULES())


def _card(each: Cabin, free: bool | None = None) -> Markup:
    badge: Content = None
    if free is not None:
        text = "Free" if free else "Not free"
        badge = _BADGE(text=text, kind="" if free else " no")
    return _CARD(
        slug=each.slug,
        name=each.name,
        picture=each.picture,
        blurb=each.blurb,
        sleeps=each.sleeps,
        rate=each.rate,
        dogs="dogs welcome" if each.dogs else "no dogs",
        badge=badge,
        off=" off" if free is False else "",
    )


def _month_link(of: Cabin, day: date, text: str) -> Markup:
    first = day.replace(day=1)
    if not FIRST_NIGHT.replace(day=1) <= first <= LAST_DAY:
        return _NO_MONTH()
    return _MONTH_LINK(slug=of.slug, month=f"{first:%Y-%m}", text=text)


def _weeks(of: Cabin, month: date, bookings: Sequence[Booking]) -> list[Markup]:
    weeks = Calendar().monthdatescalendar(month.year, month.month)
    return [_WEEK(days=[_day(of, day, month, bookings) for day in week]) for week in weeks]


def _day(of: Cabin, day: date, month: date, bookings: Sequence[Booking]) -> Markup:
    if day.month != month.month:
        return _NO_DAY()
    if not FIRST_NIGHT <= day < LAST_DAY:
        kind = "closed"
    else:
        kind = "free" if is_free(of, day, bookings) else "taken"
    return _DAY(kind=kind, label=shown(day), number=day.day)
