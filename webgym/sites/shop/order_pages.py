"""The pages from the cart to the finished order."""

from collections.abc import Iterable, Mapping

import msgspec

from webgym.sites.shop.catalogue import BY_SLUG
from webgym.sites.shop.catalogue_pages import TEMPLATES, frame, note
from webgym.sites.shop.orders import (
    CODES,
    COUNTRIES,
    DELIVERIES,
    PAYMENTS,
    QUANTITY,
    CartLine,
    CartTotals,
    DeliveryDetails,
    ShopMessage,
    ShopOrder,
    ShopState,
    cart_totals,
    dollars,
    price_of,
)
from webgym.sites.site import Content, Markup, Template, flag, options

_CART = Template.of(TEMPLATES / "cart.html")
_CHECKOUT = Template.of(TEMPLATES / "checkout.html")
_REVIEW = Template.of(TEMPLATES / "review.html")
_ORDER = Template.of(TEMPLATES / "order.html")
_EMPTY = Template(
    "<h1>Your cart</h1><p>Your cart is empty.</p>"
    '<p><a class="button" href="/shop/products">Look at all products</a></p>'
)
_LINE = Template(
    '<tr><td><img src="/shop/picture/{slug}.svg" alt=""></td>'
    '<td><a href="/shop/product/{slug}"><b>{name}</b></a><br><small>{option}</small></td>'
    '<td><form method="post" action="/shop/cart/change">'
    '<input type="hidden" name="product" value="{slug}">'
    '<input type="hidden" name="option" value="{option}">'
    '<input type="number" name="quantity" value="{quantity}" min="0" max="{most}" '
    'aria-label="Quantity of {label}">'
    '<button class="light" aria-label="Update {label}">Update</button></form></td>'
    '<td><form method="post" action="/shop/cart/remove">'
    '<input type="hidden" name="product" value="{slug}">'
    '<input type="hidden" name="option" value="{option}">'
    '<button class="plain" aria-label="Remove {label}">Remove</button></form></td>'
    '<td class="amount">{price}</td></tr>'
)
_FIXED_LINE = Template(
    '<tr><td><img src="/shop/picture/{slug}.svg" alt=""></td><td><b>{name}</b><br>'
    '<small>{option}</small></td><td>{quantity} &times;</td><td class="amount">{price}</td></tr>'
)
_TOTALS = Template(
    "<h2>Summary</h2><dl><dt>Products</dt><dd>{goods}</dd>{reduction}"
    "<dt>Delivery</dt><dd>{delivery}</dd>"
    '<dt class="total">Total</dt><dd class="total">{total}</dd></dl>'
)
_REDUCTION = Template("<dt>Code {code}</dt><dd>&minus;{reduction}</dd>")
_FIELD = Template(
    '<div class="field{wide}"><label for="{name}">{label}</label><input id="{name}" name="{name}" '
    'type="{kind}" value="{value}" autocomplete="off" maxlength="100"{invalid}>{error}</div>'
)
_ERROR = Template('<span class="error" role="alert">{text}</span>')
_RADIO = Template(
    '<label><input type="radio" name="{name}" value="{value}"{checked}> {text}</label>'
)
_ORDERS = Template("<h1>Your orders</h1>{table}")
_ORDER_TABLE = Template(
    "<table><thead><tr><th>Order</th><th>Products</th><th>Delivery to</th>"
    '<th class="amount">Total</th></tr></thead><tbody>{rows}</tbody></table>'
)
_ORDER_ROW = Template(
    '<tr><td><a href="/shop/order/{number}">{number}</a></td><td>{products}</td>'
    "<td>{city}</td><td>{total}</td></tr>"
)
_NO_ORDERS = Template("<p>You have not ordered anything yet.</p>")
_INVALID = Markup(' aria-invalid="true"')
_FIELDS = (
    ("name", "Full name", "text", " wide"),
    ("email", "Email", "email", " wide"),
    ("address", "Street and number", "text", " wide"),
    ("city", "City", "text", ""),
    ("postcode", "Postcode", "text", ""),
)


def cart_page(state: ShopState) -> Markup:
    if not state.cart:
        return frame(state, "Cart", _EMPTY())
    body = _CART(
        lines=_lines(_LINE, state.cart),
        totals=_summary(state, cart_totals(state)),
        code=state.discount,
    )
    return frame(state, "Cart", body)


def checkout_page(state: ShopState, details: DeliveryDetails, errors: Mapping[str, str]) -> Markup:
    wrong = f"Please correct {len(errors)} field{'s' if len(errors) > 1 else ''}."
    body = _CHECKOUT(
        note=note(ShopMessage(wrong, bad=True)) if errors else None,
        fields=[
            _FIELD(
                name=name,
                label=label,
                kind=kind,
                wide=wide,
                value=getattr(details, name),
                invalid=_INVALID if name in errors else None,
                error=_error(errors, name),
            )
            for name, label, kind, wide in _FIELDS
        ],
        countries=options(COUNTRIES.items(), details.country),
        country_invalid=_INVALID if "country" in errors else None,
        country_error=_error(errors, "country"),
        deliveries=_radios("delivery", DELIVERIES, details.delivery),
        payments=_radios("payment", PAYMENTS, details.payment),
        gift=flag("checked", details.gift),
        totals=_summary(state, cart_totals(state, details.delivery)),
    )
    return frame(state, "Checkout", body)


def review_page(state: ShopState, details: DeliveryDetails) -> Markup:
    values: dict[str, Content] = msgspec.structs.asdict(details) | {
        "lines": _lines(_FIXED_LINE, state.cart),
        "country": COUNTRIES[details.country],
        "delivery": DELIVERIES[details.delivery],
        "payment": PAYMENTS[details.payment],
        "gift": " · Gift wrapping" if details.gift else "",
        "totals": _summary(state, cart_totals(state, details.delivery)),
    }
    body = _REVIEW(**values)
    return frame(state, "Review your order", body)


def order_page(state: ShopState, order: ShopOrder) -> Markup:
    body = _ORDER(
        number=order.number,
        name=order.details.name,
        email=order.details.email,
        delivery=DELIVERIES[order.details.delivery],
        lines=_lines(_FIXED_LINE, order.lines),
        total=dollars(order.total_cents),
    )
    return frame(state, f"Order {order.number}", body)


def orders_page(state: ShopState) -> Markup:
    rows = [
        _ORDER_ROW(
            number=order.number,
            products=", ".join(BY_SLUG[line.product].name for line in order.lines),
            city=order.details.city,
            total=dollars(order.total_cents),
        )
        for order in state.orders
    ]
    table = _ORDER_TABLE(rows=rows) if rows else _NO_ORDERS()
    return frame(state, "Your orders", _ORDERS(table=table))


def _lines(template: Template, lines: Iterable[CartLine]) -> list[Markup]:
    shown = []
    for line in lines:
        product = BY_SLUG[line.product]
        values: dict[str, Content] = {
            "slug": product.slug,
            "name": product.name,
            "option": line.option,
            "label": f"{product.name}, {line.option}" if line.option else product.name,
            "quantity": line.quantity,
            "most": min(product.stock, QUANTITY),
            "price": dollars(price_of(line)),
        }
        shown.append(template(**values))
    return shown


def _summary(state: ShopState, sums: CartTotals) -> Markup:
    reduction = None
    if state.discount in CODES:
        reduction = _REDUCTION(code=state.discount, reduction=dollars(sums.reduction))
    return _TOTALS(
        goods=dollars(sums.goods),
        reduction=reduction,
        delivery=dollars(sums.delivery) if sums.delivery else "Free",
        total=dollars(sums.total),
    )


def _radios(name: str, choices: Mapping[str, str], chosen: str) -> list[Markup]:
    return [
        _RADIO(name=name, value=value, text=text, checked=flag("checked", value == chosen))
        for value, text in choices.items()
    ]


def _error(errors: Mapping[str, str], name: str) -> Content:
    return _ERROR(text=errors[name]) if name in errors else None
