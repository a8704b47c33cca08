"""What a visitor does in the shop: the cart, its totals, the checkout form, and orders."""

import re
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from webgym.sites.errors import InvalidInputError
from webgym.sites.shop.catalogue import BY_SLUG, Product
from webgym.sites.site import append_bounded, is_email, read_choice

CART_LINES = 30
QUANTITY = 20
ORDERS = 30
SAVED = 60


class CartLine(msgspec.Struct, frozen=True):
    """A product in a variant; `option` is empty if the product has no variants."""

    product: str
    option: str
    quantity: int


class DeliveryDetails(msgspec.Struct, frozen=True):
    """The checkout form: recipient, address, delivery and payment."""

    name: str = ""
    email: str = ""
    address: str = ""
    city: str = ""
    postcode: str = ""
    country: str = ""
    delivery: str = "standard"
    payment: str = "invoice"
    gift: bool = False


class ShopOrder(msgspec.Struct, frozen=True):
    """An order. Its number follows from its content."""

    number: str
    lines: tuple[CartLine, ...]
    details: DeliveryDetails
    discount: str
    total_cents: int


class ShopMessage(msgspec.Struct, frozen=True):
    """A message about the last action, which the next page shows."""

    text: str
    bad: bool = False


class ShopState(msgspec.Struct):
    """The shop's part of a session.

    `searches` are the texts searched for; `discount` is the code in use, or empty; `details` is the
    checkout form as it was sent last, until the order is placed.
    """

    cart: list[CartLine] = msgspec.field(default_factory=list)
    discount: str = ""
    details: DeliveryDetails | None = None
    orders: list[ShopOrder] = msgspec.field(default_factory=list)
    saved: list[str] = msgspec.field(default_factory=list)
    searches: list[str] = msgspec.field(default_factory=list)
    notice_closed: bool = False
    message: ShopMessage | None = None


CODES = {"HEARTH10": 10, "SPRING15": 15}
"""Discount codes and their per cent."""
DELIVERIES = {"standard": "Standard, 3 to 5 days", "express": "Express, next day"}
STANDARD_CENTS = 590
EXPRESS_CENTS = 1290
FREE_FROM_CENTS = 10_000


class CartTotals(msgspec.Struct, frozen=True):
    """The cost of a cart, in cents."""

    goods: int
    reduction: int
    delivery: int

    @property
    def total(self) -> int:
        return self.goods - self.reduction + self.delivery


def dollars(cents: int) -> str:
    return f"${cents // 100:,}.{cents % 100:02}"


def price_of(line: CartLine) -> int:
    return BY_SLUG[line.product].price(line.option) * line.quantity


def cart_totals(state: ShopState, delivery: str = "standard") -> CartTotals:
    goods = sum(map(price_of, state.cart))
    reduction = goods * CODES.get(state.discount, 0) // 100
    if not state.cart:
        cost = 0
    elif delivery == "express":
        cost = EXPRESS_CENTS
    else:
        cost = 0 if goods - reduction >= FREE_FROM_CENTS else STANDARD_CENTS
    return CartTotals(goods, reduction, cost)


def item_count(state: ShopState) -> int:
    return sum(line.quantity for line in state.cart)


def add_to_cart(state: ShopState, product: Product, option: str, quantity: int) -> None:
    """Add a product to the cart. Raises InvalidInputError if it is not available."""
    if (option or product.option) and option not in product.choice_names:
        raise InvalidInputError("Please choose one of the variants.")
    index = _line_index(state, product.slug, option)
    before = state.cart[index].quantity if index is not None else 0
    wanted = before + quantity
    if wanted > min(product.stock, QUANTITY):
        raise InvalidInputError(_shortage(product))
    line = CartLine(product.slug, option, wanted)
    if index is not None:
        state.cart[index] = line
    elif len(state.cart) < CART_LINES:
        state.cart.append(line)
    else:
        raise InvalidInputError("The cart is full. Remove something first.")


def change_quantity(state: ShopState, product: Product, option: str, quantity: int) -> None:
    """Set the quantity of a line; 0 removes the line. Raises InvalidInputError."""
    index = _line_index(state, product.slug, option)
    if index is None:
        raise InvalidInputError("That is not in the cart any more.")
    if quantity > min(product.stock, QUANTITY):
        raise InvalidInputError(_shortage(product))
    if quantity:
        state.cart[index] = CartLine(product.slug, option, quantity)
    else:
        del state.cart[index]


def _line_index(state: ShopState, slug: str, option: str) -> int | None:
    keys = [(line.product, line.option) for line in state.cart]
    return keys.index((slug, option)) if (slug, option) in keys else None


def _shortage(product: Product) -> str:
    if not product.stock:
        return f"{product.name} is out of stock."
    return f"You can order at most {min(product.stock, QUANTITY)} of {product.name}."


COUNTRIES = {
    "": "Choose a country",
    "AL": "Aldmark",
    "BR": "Brennia",
    "CO": "Corrany",
    "OR": "Orrin Isles",
    "VE": "Velland",
}
PAYMENTS = {"invoice": "Invoice, 14 days", "delivery": "Pay on delivery", "voucher": "Gift voucher"}
_POSTCODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 -]{2,9}")


def read_details(fields: Mapping[str, str]) -> DeliveryDetails:
    """The form as it was sent. Raises InvalidInputError for values that the form does not offer."""
    typed = ("name", "email", "address", "city", "postcode")
    return DeliveryDetails(
        **{name: fields.get(name, "") for name in typed},
        country=read_choice(fields, "country", COUNTRIES),
        delivery=read_choice(fields, "delivery", DELIVERIES),
        payment=read_choice(fields, "payment", PAYMENTS),
        gift=bool(fields.get("gift")),
    )


def detail_problems(details: DeliveryDetails) -> dict[str, str]:
    """The problems with the form, by field."""
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
        found["email"] = "This is not an email address: it should look like name@example.com."
    if details.postcode and not _POSTCODE.fullmatch(details.postcode):
        found["postcode"] = "A postcode has 3 to 10 letters, digits and spaces."
    return found


def place_order(state: ShopState, details: DeliveryDetails) -> ShopOrder:
    """Turn the cart into an order."""
    total = cart_totals(state, details.delivery).total
    order = ShopOrder("", tuple(state.cart), details, state.discount, total)
    order = msgspec.structs.replace(order, number=_order_number(order, len(state.orders)))
    append_bounded(state.orders, order, ORDERS)
    state.cart, state.discount, state.details = [], "", None
    return order


def _order_number(order: ShopOrder, before: int) -> str:
    """Equal orders have equal numbers, so that a recorded solution can name one."""
    digest = sha256(msgspec.json.encode((order, before))).digest()
    return f"HB-{int.from_bytes(digest[:4], 'big') % 900_000 + 100_000}"
