from datetime import date

import msgspec
import pytest

from webgym.sites.booking.cabins import (
    BOOKINGS,
    BY_SLUG,
    CABINS,
    FIRST_BOOKING,
    FIRST_NIGHT,
    LAST_DAY,
    BookingDraft,
    BookingState,
    cabin,
    is_free,
    is_free_for,
    price,
)
from webgym.sites.booking.wizard import (
    DATES,
    GUESTS,
    REVIEW,
    book,
    fill_dates,
    fill_guests,
    fill_review,
    problems,
    unfinished,
)
from webgym.sites.errors import MissingPageError

STAY = {"cabin": "tern-loft", "arrival": "2030-06-06", "departure": "2030-06-10", "guests": "2"}
GUEST = {
    "first_name": "Nils",
    "last_name": "Berg",
    "email": "nils@example.com",
    "phone": "0441 555",
    "arrival_time": "16",
}


def filled(**changed: str) -> BookingDraft:
    fields = {**STAY, **GUEST, **changed}
    return fill_guests(fill_dates(BookingDraft(), fields), fields)


def test_a_night_is_free_from_the_departure_of_the_guests_before() -> None:
    loft = cabin("tern-loft")
    assert not is_free(loft, date(2030, 6, 5), [])
    assert is_free(loft, date(2030, 6, 6), [])
    assert is_free_for(loft, date(2030, 6, 18), date(2030, 6, 20), [])
    assert not is_free_for(loft, date(2030, 6, 18), date(2030, 6, 21), [])


def test_no_cabin_is_free_outside_the_season() -> None:
    for each in CABINS:
        assert not is_free(each, date(2030, 5, 9), [])
        assert not is_free(each, LAST_DAY, [])
        for begin, end in each.taken:
            assert FIRST_NIGHT <= begin < end <= LAST_DAY


def test_a_booking_takes_its_nights_until_it_is_cancelled() -> None:
    cottage, night = BY_SLUG[FIRST_BOOKING.cabin], date(2030, 9, 8)
    assert not is_free(cottage, night, [FIRST_BOOKING])
    cancelled = msgspec.structs.replace(FIRST_BOOKING, status="cancelled")
    assert is_free(cottage, night, [cancelled])


def test_the_booking_that_every_session_starts_with_is_valid() -> None:
    first = FIRST_BOOKING
    nights = (date.fromisoformat(first.departure) - date.fromisoformat(first.arrival)).days
    assert first.total == price(BY_SLUG[first.cabin], nights, first.extras, dog=first.dog)
    arrival, departure = date.fromisoformat(first.arrival), date.fromisoformat(first.departure)
    assert is_free_for(BY_SLUG[first.cabin], arrival, departure, [])


def test_dates_are_checked() -> None:
    for changed, field, said in [
        ({"cabin": ""}, "cabin", "Choose a cabin"),
        ({"cabin": "castle"}, "cabin", "Choose a cabin"),
        ({"guests": ""}, "guests", "Choose the number"),
        ({"guests": "99"}, "guests", "Choose the number"),
        ({"guests": "3"}, "guests", "sleeps 2 at most"),
        ({"arrival": ""}, "arrival", "day of arrival"),
        ({"arrival": "6 June"}, "arrival", "day of arrival"),
        ({"arrival": "2030-01-06"}, "arrival", "The season is from Fri 10 May 2030"),
        ({"departure": ""}, "departure", "day of departure"),
        ({"departure": "2030-06-06"}, "departure", "after the arrival"),
        ({"departure": "2030-06-07"}, "departure", "shortest stay is 2"),
        ({"departure": "2030-06-21"}, "departure", "longest stay is 14"),
        ({"departure": "2030-10-01"}, "departure", "season ends"),
        ({"departure": "2030-06-20", "arrival": "2030-06-12"}, "", ""),
        ({"arrival": "2030-06-04"}, "cabin", "not free"),
    ]:
        found = problems(filled(**changed), DATES, [])
        assert set(found) == ({field} if field else set())
        assert said in found.get(field, "")


def test_guests_are_checked() -> None:
    for changed, field in [
        ({"first_name": ""}, "first_name"),
        ({"last_name": ""}, "last_name"),
        ({"email": "nils"}, "email"),
        ({"phone": "call me"}, "phone"),
        ({"arrival_time": ""}, "arrival_time"),
        ({"arrival_time": "3"}, "arrival_time"),
        ({"dog": "1"}, "dog"),
        ({"dog": "1", "cabin": "plover-hut"}, None),
        ({}, None),
    ]:
        assert set(problems(filled(**changed), GUESTS, [])) == ({field} if field else set())


def test_the_rules_must_be_accepted() -> None:
    assert set(problems(filled(), REVIEW, [])) == {"terms"}
    assert problems(fill_review(filled(), {"terms": "1"}), REVIEW, []) == {}


def test_an_earlier_step_must_be_finished_first() -> None:
    assert unfinished(BookingDraft(), [], DATES) is None
    assert unfinished(BookingDraft(), [], REVIEW) == DATES
    assert unfinished(filled(email=""), [], REVIEW) == GUESTS
    assert unfinished(filled(), [], REVIEW) is None


def test_a_draft_becomes_a_booking_whose_reference_follows_from_it() -> None:
    def booked(**changed: str) -> str:
        state = BookingState(draft=filled(**changed))
        booking = book(state)
        assert state.bookings == [FIRST_BOOKING, booking]
        assert state.draft == BookingDraft()
        assert booking.total == 4 * 96 + sum(
            {"extra-firewood": 12, "extra-late": 25}[name] for name in changed
        )
        return booking.reference

    plain = booked()
    assert plain == booked()
    assert booked(**{"extra-firewood": "1", "extra-late": "1"}) != plain


def test_bookings_are_bounded() -> None:
    state = BookingState()
    for _ in range(BOOKINGS + 3):
        state.draft = filled()
        book(state)
    assert len(state.bookings) == BOOKINGS


def test_there_are_only_our_cabins() -> None:
    with pytest.raises(MissingPageError):
        cabin("castle")
