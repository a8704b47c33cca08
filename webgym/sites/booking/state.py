"""What a visitor has booked, and how far the form is filled in."""

import msgspec

BOOKINGS = 30


class Draft(msgspec.Struct, frozen=True):
    """The form as it was typed; nothing in it need be right.

    `sent` names the steps that have been sent, and so may complain.
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
    """A stay. The reference follows from the content."""

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
"""What every visitor finds already booked."""


class Lookup(msgspec.Struct, frozen=True):
    """The form that finds a booking, as it was sent without success."""

    reference: str
    last_name: str


class BookingState(msgspec.Struct):
    """`looked_up` are the references of the bookings that may be managed."""

    draft: Draft = Draft()
    bookings: list[Booking] = msgspec.field(default_factory=lambda: [FIRST_BOOKING])
    looked_up: list[str] = msgspec.field(default_factory=list)
    lookup: Lookup | None = None
