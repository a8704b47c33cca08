"""From a cart to an order: the details, what is wrong with them, and the order's number."""

import re
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from webgym.sites.bounds import remember
from webgym.sites.forms import one_of
from webgym.sites.shop.cart import DELIVERIES, totals
from webgym.sites.shop.state import ORDERS, Details, Order, ShopState

COUNTRIES = {
    "": "Choose a country",
    "AL": "Aldmark",
    "BR": "Brennia",
    "CO": "Corrany",
    "OR": "Orrin Isles",
    "VE": "Velland",
}
PAYMENTS = {"invoice": "Invoice, 14 days", "delivery": "Pay on delivery", "voucher": "Gift voucher"}
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")
_POSTCODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 -]{2,9}")


def details_of(fields: Mapping[str, str]) -> Details:
    """The form as it was sent. Raises BadRequestError for what no form sends."""
    return Details(
        name=fields.get("name", ""),
        email=fields.get("email", ""),
        address=fields.get("address", ""),
        city=fields.get("city", ""),
        postcode=fields.get("postcode", ""),
        country=one_of(fields, "country", COUNTRIES),
        delivery=one_of(fields, "delivery", DELIVERIES),
        payment=one_of(fields, "payment", PAYMENTS),
        gift=bool(fields.get("gift")),
    )


def problems(details: Details) -> dict[str, str]:
    """What is wrong, by field."""
    needed = {
        "name": "Enter the name of the recipient.",
        "email": "Enter an email address.",
        "address": "Enter a street and number.",
        "city": "Enter a town or city.",
        "postcode": "Enter a postcode.",
        "country": "Choose a country.",
    }
    found = {field: text for field, text in needed.items() if not getattr(details, field)}
    if details.email and not is_email(details.email):
        found["email"] = "This is no email address: it should look like name@example.com."
    if details.postcode and not _POSTCODE.fullmatch(details.postcode):
        found["postcode"] = "A postcode has 3 to 10 letters, digits and spaces."
    return found


def is_email(text: str) -> bool:
    return _EMAIL.fullmatch(text) is not None


def place_order(state: ShopState, details: Details) -> Order:
    """Turn the cart into an order."""
    total = totals(state, details.delivery).total
    order = Order("", tuple(state.cart), details, state.discount, total)
    order = msgspec.structs.replace(order, number=_number(order, len(state.orders)))
    remember(state.orders, order, ORDERS)
    state.cart, state.discount, state.details = [], "", None
    return order


def _number(order: Order, before: int) -> str:
    """The same for the same order, so that a recorded solution can name it."""
    digest = sha256(msgspec.json.encode((order, before))).digest()
    return f"HB-{int.from_bytes(digest[:4], 'big') % 900_000 + 100_000}"
