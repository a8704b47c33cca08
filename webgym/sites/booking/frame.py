"""What is around every page of the cabins, and what several of them show."""

from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from webgym.sites.booking.cabins import BY_SLUG, EXTRAS, TODAY, shown
from webgym.sites.booking.state import Booking
from webgym.sites.booking.wizard import ARRIVAL_TIMES, STEPS
from webgym.sites.markup import Content, Markup, Template

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
    """The whole page."""
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
    """A booking in words."""
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
