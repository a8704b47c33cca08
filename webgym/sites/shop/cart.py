"""The cart: what is in it, and what it comes to."""

import msgspec

from webgym.sites.errors import BadRequestError
from webgym.sites.shop.catalogue import BY_SLUG, Product
from webgym.sites.shop.state import CART_LINES, QUANTITY, CartLine, ShopState

CODES = {"HEARTH10": 10, "SPRING15": 15}
"""Discount codes, with how many per cent they are worth."""
DELIVERIES = {"standard": "Standard, 3 to 5 days", "express": "Express, next day"}
STANDARD_CENTS = 590
EXPRESS_CENTS = 1290
FREE_FROM_CENTS = 10_000


class Totals(msgspec.Struct, frozen=True):
    """What a cart costs, in cents."""

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


def totals(state: ShopState, delivery: str = "standard") -> Totals:
    goods = sum(map(price_of, state.cart))
    reduction = goods * CODES.get(state.discount, 0) // 100
    if not state.cart:
        cost = 0
    elif delivery == "express":
        cost = EXPRESS_CENTS
    else:
        cost = 0 if goods - reduction >= FREE_FROM_CENTS else STANDARD_CENTS
    return Totals(goods, reduction, cost)


def count(state: ShopState) -> int:
    return sum(line.quantity for line in state.cart)


def add(state: ShopState, product: Product, option: str, quantity: int) -> None:
    """Put more into the cart. Raises BadRequestError for what cannot be had."""
    if (option or product.option) and option not in product.choice_names:
        raise BadRequestError("Please choose one of the variants.")
    index = _index(state, product.slug, option)
    before = state.cart[index].quantity if index is not None else 0
    wanted = before + quantity
    if wanted > min(product.stock, QUANTITY):
        raise BadRequestError(_shortage(product))
    line = CartLine(product.slug, option, wanted)
    if index is not None:
        state.cart[index] = line
    elif len(state.cart) < CART_LINES:
        state.cart.append(line)
    else:
        raise BadRequestError("The cart is full. Remove something first.")


def change(state: ShopState, product: Product, option: str, quantity: int) -> None:
    """Set how many of a line there are; none removes it. Raises BadRequestError."""
    index = _index(state, product.slug, option)
    if index is None:
        raise BadRequestError("That is not in the cart any more.")
    if quantity > min(product.stock, QUANTITY):
        raise BadRequestError(_shortage(product))
    if quantity:
        state.cart[index] = CartLine(product.slug, option, quantity)
    else:
        del state.cart[index]


def _index(state: ShopState, slug: str, option: str) -> int | None:
    keys = [(line.product, line.option) for line in state.cart]
    return keys.index((slug, option)) if (slug, option) in keys else None


def _shortage(product: Product) -> str:
    if not product.stock:
        return f"{product.name} is out of stock."
    return f"You can order at most {min(product.stock, QUANTITY)} of {product.name}."
