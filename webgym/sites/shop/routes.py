"""From the shop's addresses to its pages."""

from pathlib import Path
from typing import NoReturn

import msgspec
from aiohttp import web

from webgym.sites.bounds import SEARCHES_KEPT, remember
from webgym.sites.errors import BadRequestError, MissingPageError
from webgym.sites.forms import asked, posted, whole_number
from webgym.sites.markup import Markup, Template
from webgym.sites.shop import cart, cart_pages, catalogue_pages, checkout
from webgym.sites.shop.catalogue import BY_SLUG, Query, product, suggestions
from webgym.sites.shop.frame import TEMPLATES, frame
from webgym.sites.shop.pictures import drawing
from webgym.sites.shop.state import QUANTITY, SAVED, Details, Message, ShopState
from webgym.sites.site import Site, page, picture
from webgym.sites.visitors import session_of

_HELP = {
    name: Template.of(TEMPLATES / f"help_{name}.html")()
    for name in ("delivery", "returns", "contact")
}


def _state(request: web.Request) -> ShopState:
    return session_of(request).shop


def _page(state: ShopState, markup: Markup) -> web.Response:
    """The page, which has shown the message that there was."""
    state.message = None
    return page(markup)


async def _home(request: web.Request) -> web.Response:
    state = _state(request)
    return _page(state, catalogue_pages.home(state))


async def _products(request: web.Request) -> web.Response:
    query = Query.of(asked(request))
    state = _state(request)
    if query.text and query.page == 1:
        remember(state.searches, query.text, SEARCHES_KEPT)
    return _page(state, catalogue_pages.listing(state, query))


async def _suggest(request: web.Request) -> web.Response:
    found = suggestions(asked(request).get("q", ""))
    rows = [{"name": each.name, "url": f"/shop/product/{each.slug}"} for each in found]
    return web.Response(body=msgspec.json.encode(rows), content_type="application/json")


async def _product(request: web.Request) -> web.Response:
    state, found = _state(request), product(request.match_info["slug"])
    return _page(state, catalogue_pages.product_page(state, found))


async def _picture(request: web.Request) -> web.Response:
    return picture(drawing(product(request.match_info["slug"])))


async def _show_saved(request: web.Request) -> web.Response:
    state = _state(request)
    saved = [BY_SLUG[slug] for slug in state.saved]
    return _page(state, catalogue_pages.saved_page(state, saved))


async def _toggle_saved(request: web.Request) -> web.Response:
    state, found = _state(request), product((await posted(request)).get("product", ""))
    if found.slug in state.saved:
        state.saved.remove(found.slug)
        state.message = Message(f"{found.name} is not saved any more.")
    else:
        remember(state.saved, found.slug, SAVED)
        state.message = Message(f"{found.name} is saved for later.")
    raise web.HTTPSeeOther(f"/shop/product/{found.slug}")


async def _cart(request: web.Request) -> web.Response:
    state = _state(request)
    return _page(state, cart_pages.cart_page(state))


async def _add(request: web.Request) -> web.Response:
    state, fields = _state(request), await posted(request)
    found = product(fields.get("product", ""))
    try:
        quantity = whole_number(fields, "quantity", 1, 1, QUANTITY)
        cart.add(state, found, fields.get("option", ""), quantity)
    except BadRequestError as error:
        state.message = Message(str(error), bad=True)
        raise web.HTTPSeeOther(f"/shop/product/{found.slug}") from error
    state.message = Message(f"{found.name} is in your cart.")
    raise web.HTTPSeeOther("/shop/cart")


async def _change(request: web.Request) -> web.Response:
    fields = await posted(request)
    return _set_quantity(_state(request), fields)


async def _remove(request: web.Request) -> web.Response:
    fields = await posted(request)
    return _set_quantity(_state(request), {**fields, "quantity": "0"})


def _set_quantity(state: ShopState, fields: dict[str, str]) -> NoReturn:
    found = product(fields.get("product", ""))
    try:
        number = whole_number(fields, "quantity", 1, 0, QUANTITY)
        cart.change(state, found, fields.get("option", ""), number)
    except BadRequestError as error:
        state.message = Message(str(error), bad=True)
    raise web.HTTPSeeOther("/shop/cart")


async def _discount(request: web.Request) -> web.Response:
    state, code = _state(request), (await posted(request)).get("code", "").upper()
    if code and code not in cart.CODES:
        state.message = Message(f"The code “{code[:20]}” is not valid.", bad=True)
    else:
        state.discount = code
        state.message = Message("The code is applied.") if code else None
    raise web.HTTPSeeOther("/shop/cart")


async def _checkout(request: web.Request) -> web.Response:
    state = _with_cart(request)
    details = state.details or Details()
    errors = checkout.problems(details) if state.details else {}
    return _page(state, cart_pages.checkout_page(state, details, errors))


async def _send_details(request: web.Request) -> web.Response:
    state, details = _with_cart(request), checkout.details_of(await posted(request))
    state.details = details
    good = not checkout.problems(details)
    raise web.HTTPSeeOther("/shop/checkout/review" if good else "/shop/checkout")


async def _review(request: web.Request) -> web.Response:
    state = _with_cart(request)
    return _page(state, cart_pages.review_page(state, _valid_details(state)))


async def _order(request: web.Request) -> web.Response:
    state = _with_cart(request)
    order = checkout.place_order(state, _valid_details(state))
    raise web.HTTPSeeOther(f"/shop/order/{order.number}")


async def _show_order(request: web.Request) -> web.Response:
    state, number = _state(request), request.match_info["number"]
    order = next((each for each in state.orders if each.number == number), None)
    if order is None:
        raise MissingPageError("You have no order with this number.")
    return _page(state, cart_pages.order_page(state, order))


async def _orders(request: web.Request) -> web.Response:
    state = _state(request)
    return _page(state, cart_pages.orders_page(state))


async def _close_notice(request: web.Request) -> web.Response:
    _state(request).notice_closed = True
    raise web.HTTPSeeOther("/shop/")


async def _help(request: web.Request) -> web.Response:
    topic = request.match_info["topic"]
    if topic not in _HELP:
        raise MissingPageError("There is no help on that.")
    state = _state(request)
    return _page(state, frame(state, topic.capitalize(), _HELP[topic]))


def _with_cart(request: web.Request) -> ShopState:
    """Raises HTTPSeeOther to the cart where it is empty."""
    state = _state(request)
    if not state.cart:
        raise web.HTTPSeeOther("/shop/cart")
    return state


def _valid_details(state: ShopState) -> Details:
    """Raises HTTPSeeOther to the form where it has not been filled in."""
    if state.details is None or checkout.problems(state.details):
        raise web.HTTPSeeOther("/shop/checkout")
    return state.details


SHOP = Site(
    name="shop",
    title="Hearth & Bramble",
    summary="A shop: search, filters, variants, cart, checkout.",
    folder=Path(__file__).parent,
    routes=(
        web.get("/shop/", _home),
        web.get("/shop/products", _products),
        web.get("/shop/suggest", _suggest),
        web.get("/shop/product/{slug}", _product),
        web.get("/shop/picture/{slug}.svg", _picture),
        web.get("/shop/saved", _show_saved),
        web.post("/shop/saved/toggle", _toggle_saved),
        web.get("/shop/cart", _cart),
        web.post("/shop/cart/add", _add),
        web.post("/shop/cart/change", _change),
        web.post("/shop/cart/remove", _remove),
        web.post("/shop/cart/discount", _discount),
        web.get("/shop/checkout", _checkout),
        web.post("/shop/checkout", _send_details),
        web.get("/shop/checkout/review", _review),
        web.post("/shop/order", _order),
        web.get("/shop/order/{number}", _show_order),
        web.get("/shop/orders", _orders),
        web.post("/shop/notice", _close_notice),
        web.get("/shop/help/{topic}", _help),
    ),
)
