"""The routes of the cabins."""

from datetime import date
from pathlib import Path

import msgspec
from aiohttp import web

from webgym.sites.booking import booking_pages, cabin_pages, wizard
from webgym.sites.booking.cabins import (
    BOOKINGS,
    BY_SLUG,
    FIRST_NIGHT,
    LAST_DAY,
    Booking,
    BookingDraft,
    BookingLookup,
    BookingState,
    cabin,
)
from webgym.sites.errors import InvalidInputError, MissingPageError
from webgym.sites.sessions import session_of
from webgym.sites.site import (
    Site,
    append_bounded,
    page_response,
    read_choice,
    read_form,
    read_query,
)

_PAGES = {
    wizard.DATES: booking_pages.dates_page,
    wizard.GUESTS: booking_pages.guests_page,
    wizard.REVIEW: booking_pages.review_page,
}
_FILL = {
    wizard.DATES: wizard.fill_dates,
    wizard.GUESTS: wizard.fill_guests,
    wizard.REVIEW: wizard.fill_review,
}
_STEP = "{step:dates|guests|review}"


def _state(request: web.Request) -> BookingState:
    return session_of(request).booking


BOOKING = Site(
    name="booking",
    title="Fenna Cabins",
    summary="Cabins to book: dates, a form in three steps, and cancelling.",
    folder=Path(__file__).parent,
)


@BOOKING.get("")
async def _home(_: web.Request) -> web.Response:
    return page_response(cabin_pages.home())


@BOOKING.get("cabins")
async def _cabins(request: web.Request) -> web.Response:
    fields = read_query(request)
    guests = fields.get("guests", "")
    if guests not in wizard.GUEST_COUNTS:
        raise InvalidInputError("The number of guests must be from 1 to 8.")
    wanted = BookingDraft(
        arrival=fields.get("arrival", ""), departure=fields.get("departure", ""), guests=guests
    )
    return page_response(cabin_pages.cabins_page(wanted, _state(request).bookings))


@BOOKING.get("cabin/{slug}")
async def _cabin(request: web.Request) -> web.Response:
    shown, text = cabin(request.match_info["slug"]), read_query(request).get("month", "")
    try:
        month = date.fromisoformat(f"{text}-01") if text else FIRST_NIGHT.replace(day=1)
    except ValueError as error:
        raise InvalidInputError("The month must look like 2030-06.") from error
    if not FIRST_NIGHT.replace(day=1) <= month <= LAST_DAY:
        raise MissingPageError("We are closed in that month.")
    return page_response(cabin_pages.cabin_page(shown, month, _state(request).bookings))


@BOOKING.get("rules")
async def _rules(_: web.Request) -> web.Response:
    return page_response(cabin_pages.rules_page())


@BOOKING.get(f"book/{_STEP}")
async def _show_step(request: web.Request) -> web.Response:
    state, step = _state(request), request.match_info["step"]
    chosen = read_query(request).get("cabin")
    if chosen in BY_SLUG:
        state.draft = msgspec.structs.replace(state.draft, cabin=chosen)
    _require_steps_before(state, step)
    sent = step in state.draft.sent
    wrong = wizard.problems(state.draft, step, state.bookings) if sent else {}
    return page_response(_PAGES[step](state.draft, wrong))


@BOOKING.post(f"book/{_STEP}")
async def _send_step(request: web.Request) -> web.Response:
    state, step = _state(request), request.match_info["step"]
    fields = await read_form(request)
    _require_steps_before(state, step)
    state.draft = _FILL[step](state.draft, fields)
    if wizard.problems(state.draft, step, state.bookings):
        raise web.HTTPSeeOther(f"/booking/book/{step}")
    if step == wizard.REVIEW:
        booking = wizard.book(state)
        append_bounded(state.looked_up, booking.reference, BOOKINGS)
        raise web.HTTPSeeOther(f"/booking/confirmed/{booking.reference}")
    following = wizard.GUESTS if step == wizard.DATES else wizard.REVIEW
    raise web.HTTPSeeOther(f"/booking/book/{following}")


@BOOKING.get("confirmed/{reference}")
async def _confirmed(request: web.Request) -> web.Response:
    return page_response(booking_pages.confirmed_page(_managed(request)))


@BOOKING.get("manage")
async def _manage(request: web.Request) -> web.Response:
    state = _state(request)
    return page_response(booking_pages.manage_page(state.lookup))


@BOOKING.post("manage")
async def _look_up(request: web.Request) -> web.Response:
    state, fields = _state(request), await read_form(request)
    lookup = BookingLookup(fields.get("reference", ""), fields.get("last_name", ""))
    for booking in state.bookings:
        if (booking.reference, booking.last_name.casefold()) == (
            lookup.reference.upper(),
            lookup.last_name.casefold(),
        ):
            state.lookup = None
            append_bounded(state.looked_up, booking.reference, BOOKINGS)
            raise web.HTTPSeeOther(f"/booking/manage/{booking.reference}")
    state.lookup = lookup
    raise web.HTTPSeeOther("/booking/manage")


@BOOKING.get("manage/{reference}")
async def _found(request: web.Request) -> web.Response:
    return page_response(booking_pages.found_page(_managed(request)))


@BOOKING.get("manage/{reference}/cancel")
async def _ask_to_cancel(request: web.Request) -> web.Response:
    booking = _managed(request)
    if booking.status != "confirmed":
        raise web.HTTPSeeOther(f"/booking/manage/{booking.reference}")
    return page_response(booking_pages.cancel_page(booking))


@BOOKING.post("manage/{reference}/cancel")
async def _cancel(request: web.Request) -> web.Response:
    state, booking, fields = _state(request), _managed(request), await read_form(request)
    reason = read_choice(fields, "reason", booking_pages.REASONS)
    if booking.status == "confirmed":
        at = state.bookings.index(booking)
        state.bookings[at] = msgspec.structs.replace(booking, status="cancelled", reason=reason)
    raise web.HTTPSeeOther(f"/booking/manage/{booking.reference}")


def _require_steps_before(state: BookingState, step: str) -> None:
    """Redirects to an earlier step that is not finished: raises HTTPSeeOther."""
    before = wizard.unfinished(state.draft, state.bookings, step)
    if before is not None:
        raise web.HTTPSeeOther(f"/booking/book/{before}")


def _managed(request: web.Request) -> Booking:
    """The booking in the URL. Raises MissingPageError unless this session made or found it."""
    state, reference = _state(request), request.match_info["reference"]
    for booking in state.bookings:
        if booking.reference == reference in state.looked_up:
            return booking
    raise MissingPageError("Find the booking first, with its reference and your last name.")
