"""What a visitor has done in the shop."""

import msgspec

CART_LINES = 30
QUANTITY = 20
ORDERS = 30
SAVED = 60


class CartLine(msgspec.Struct, frozen=True):
    """A product in the chosen variant; `option` is empty where there is none to choose."""

    product: str
    option: str
    quantity: int


class Details(msgspec.Struct, frozen=True):
    """Who gets an order, where, and how."""

    name: str = ""
    email: str = ""
    address: str = ""
    city: str = ""
    postcode: str = ""
    country: str = ""
    delivery: str = "standard"
    payment: str = "invoice"
    gift: bool = False


class Order(msgspec.Struct, frozen=True):
    """What was ordered. The number follows from the content."""

    number: str
    lines: tuple[CartLine, ...]
    details: Details
    discount: str
    total_cents: int


class Message(msgspec.Struct, frozen=True):
    """What the next page says about what just happened."""

    text: str
    bad: bool = False


class ShopState(msgspec.Struct):
    """Searches are the texts searched for; `discount` is the code in use, or empty.

    `details` is the form of the checkout as it was sent last, until the order is placed.
    """

    cart: list[CartLine] = msgspec.field(default_factory=list)
    discount: str = ""
    details: Details | None = None
    orders: list[Order] = msgspec.field(default_factory=list)
    saved: list[str] = msgspec.field(default_factory=list)
    searches: list[str] = msgspec.field(default_factory=list)
    notice_closed: bool = False
    message: Message | None = None
