"""The pages for the steps of a booking, and for managing it afterwards."""

from collections.abc import Mapping
from datetime import date

from webgym.sites.booking.cabin_pages import (
    INVALID,
    TEMPLATES,
    complaint,
    described,
    error,
    frame,
    note,
    rows,
    steps,
)
from webgym.sites.booking.cabins import (
    BY_SLUG,
    CABINS,
    DOG_FEE,
    EXTRAS,
    FIRST_NIGHT,
    LAST_DAY,
    Booking,
    BookingDraft,
    BookingLookup,
    shown,
)
from webgym.sites.booking.wizard import ARRIVAL_TIMES, DATES, GUEST_COUNTS, GUESTS, REVIEW, preview
from webgym.sites.site import Content, Markup, Template, flag, options

REASONS = {
    "plans": "My plans have changed",
    "ill": "Somebody is ill",
    "weather": "The weather forecast",
    "other": "Another reason",
}
_DATES = Template.of(TEMPLATES / "dates.html")
_GUESTS = Template.of(TEMPLATES / "guests.html")
_REVIEW = Template.of(TEMPLATES / "review.html")
_CONFIRMED = Template.of(TEMPLATES / "confirmed.html")
_MANAGE = Template.of(TEMPLATES / "manage.html")
_FOUND = Template.of(TEMPLATES / "found.html")
_CANCEL = Template.of(TEMPLATES / "cancel.html")
_RADIO = Template(
    '<label><input type="radio" name="cabin" value="{value}"{checked}> {text}</label>'
)
_CHECKBOX = Template(
    '<label><input type="checkbox" name="extra-{name}" value="1"{checked}> {text} (${cost})</label>'
)
_FIELD = Template(
    '<div class="field"><label for="{name}">{label}</label><input id="{name}" name="{name}" '
    'type="{kind}" value="{value}" autocomplete="off" maxlength="100"{bad}>{error}</div>'
)
_ACTIONS = Template(
    '<p class="actions"><a class="button" href="/booking/manage/{reference}/cancel">'
    "Cancel booking</a></p>"
)
_FIELDS = (
    ("first_name", "First name", "text"),
    ("last_name", "Last name", "text"),
    ("email", "Email", "email"),
    ("phone", "Phone", "tel"),
)


def dates_page(draft: BookingDraft, wrong: Mapping[str, str]) -> Markup:
    body = _DATES(
        steps=steps(DATES),
        note=complaint(wrong),
        cabins=[
            _RADIO(
                value=each.slug,
                text=f"{each.name}: sleeps {each.sleeps}, ${each.rate} per night",
                checked=flag("checked", each.slug == draft.cabin),
            )
            for each in CABINS
        ],
        cabin_bad=_bad(wrong, "cabin"),
        cabin_error=error(wrong, "cabin"),
        min=FIRST_NIGHT.isoformat(),
        max=LAST_DAY.isoformat(),
        arrival=draft.arrival,
        arrival_bad=_invalid(wrong, "arrival"),
        arrival_error=error(wrong, "arrival"),
        departure=draft.departure,
        departure_bad=_invalid(wrong, "departure"),
        departure_error=error(wrong, "departure"),
        guests=options(GUEST_COUNTS.items(), draft.guests),
        guests_bad=_invalid(wrong, "guests"),
        guests_error=error(wrong, "guests"),
    )
    return frame("Book a cabin: dates", body)


def guests_page(draft: BookingDraft, wrong: Mapping[str, str]) -> Markup:
    body = _GUESTS(
        steps=steps(GUESTS),
        note=complaint(wrong),
        fields=[
            _FIELD(
                name=name,
                label=label,
                kind=kind,
                value=getattr(draft, name),
                bad=_invalid(wrong, name),
                error=error(wrong, name),
            )
            for name, label, kind in _FIELDS
        ],
        times=options(ARRIVAL_TIMES.items(), draft.arrival_time),
        time_bad=_invalid(wrong, "arrival_time"),
        time_error=error(wrong, "arrival_time"),
        extras=[
            _CHECKBOX(
                name=name, text=text, cost=cost, checked=flag("checked", name in draft.extras)
            )
            for name, (text, cost) in EXTRAS.items()
        ],
        dog=flag("checked", draft.dog),
        dog_bad=_bad(wrong, "dog"),
        dog_error=error(wrong, "dog"),
        fee=DOG_FEE,
    )
    return frame("Book a cabin: your details", body)


def review_page(draft: BookingDraft, wrong: Mapping[str, str]) -> Markup:
    body = _REVIEW(
        steps=steps(REVIEW),
        note=complaint(wrong),
        picture=BY_SLUG[draft.cabin].picture,
        rows=rows(described(preview(draft))),
        terms=flag("checked", draft.terms),
        terms_bad=_bad(wrong, "terms"),
        terms_error=error(wrong, "terms"),
    )
    return frame("Book a cabin: review", body)


def confirmed_page(booking: Booking) -> Markup:
    body = _CONFIRMED(reference=booking.reference, rows=rows(described(booking)))
    return frame(f"Booked: {booking.reference}", body)


def manage_page(lookup: BookingLookup | None) -> Markup:
    failed = "There is no booking with this reference and last name. Please check both."
    body = _MANAGE(
        note=note(failed if lookup else ""),
        reference=lookup.reference if lookup else "",
        last_name=lookup.last_name if lookup else "",
    )
    return frame("Manage booking", body)


def found_page(booking: Booking) -> Markup:
    confirmed = booking.status == "confirmed"
    body = _FOUND(
        reference=booking.reference,
        status=booking.status,
        rows=rows(described(booking)),
        actions=_ACTIONS(reference=booking.reference) if confirmed else None,
    )
    return frame(f"Booking {booking.reference}", body)


def cancel_page(booking: Booking) -> Markup:
    body = _CANCEL(
        reference=booking.reference,
        name=BY_SLUG[booking.cabin].name,
        arrival=shown(date.fromisoformat(booking.arrival)),
        departure=shown(date.fromisoformat(booking.departure)),
        reasons=options(REASONS.items(), "plans"),
    )
    return frame(f"Cancel {booking.reference}", body)


def _invalid(wrong: Mapping[str, str], field: str) -> Content:
    return INVALID if field in wrong else None


def _bad(wrong: Mapping[str, str], field: str) -> str:
    return " bad" if field in wrong else ""
