"""The routes of the shop."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from aiohttp import web

from webgym.served import json_response
from webgym.sites.errors import InvalidInputError, MissingPageError
from webgym.sites.sessions import SEARCHES_KEPT, session_of
from webgym.sites.shop import catalogue_pages, order_pages, orders
from webgym.sites.shop.catalogue import ProductQuery, drawing, find_product, suggest_products
from webgym.sites.shop.catalogue_pages import TEMPLATES, frame
from webgym.sites.shop.orders import QUANTITY, SAVED, DeliveryDetails, ShopMessage, ShopState
from webgym.sites.site import (
    Markup,
    Site,
    Template,
    append_bounded,
    page_response,
    picture_response,
    read_form,
    read_number,
    read_query,
)

_HELP = {
    name: Template.of(TEMPLATES / f"help_{name}.html")()
    for name in ("delivery", "returns", "contact")
}


def _state(request: web.Request) -> ShopState:
    return session_of(request).shop


def _page(request: web.Request, page: Callable[..., Markup], *content: object) -> web.Response:
    """A page with this content; the message that it shows is not shown again."""
    state = _state(request)
    markup = page(state, *content)
    state.message = None
    return page_response(markup)


SHOP = Site(
    name="shop",
    title="Hearth & Bramble",
    summary="A shop: search, filters, variants, cart, checkout.",
    folder=Path(__file__).parent,
)


@SHOP.get("")
async def _home(request: web.Request) -> web.Response:
    return _page(request, catalogue_pages.home)


@SHOP.get("products")
async def _products(request: web.Request) -> web.Response:
    query = ProductQuery.of(read_query(request))
    if query.text and query.page == 1:
        append_bounded(_state(request).searches, query.text, SEARCHES_KEPT)
    return _page(request, catalogue_pages.listing, query)


@SHOP.get("suggest")
async def _suggest(request: web.Request) -> web.Response:
    found = suggest_products(read_query(request).get("q", ""))
    rows = [{"name": each.name, "url": f"/shop/product/{each.slug}"} for each in found]
    return json_response(rows)


@SHOP.get("product/{slug}")
async def _product(request: web.Request) -> web.Response:
    found = find_product(request.match_info["slug"])
    return _page(request, catalogue_pages.product_page, found)


@SHOP.get("picture/{slug}.svg")
async def _picture(request: web.Request) -> web.Response:
    return picture_response(drawing(find_product(request.match_info["slug"])))


@SHOP.get("saved")
async def _show_saved(request: web.Request) -> web.Response:
    return _page(request, catalogue_pages.saved_page)


@SHOP.post("saved/toggle")
async def _toggle_saved(request: web.Request) -> web.Response:
    state, found = _state(request), find_product((await read_form(request)).get("product", ""))
    if found.slug in state.saved:
        state.saved.remove(found.slug)
        state.message = ShopMessage(f"{found.name} is not saved any more.")
    else:
        append_bounded(state.saved, found.slug, SAVED)
        state.message = ShopMessage(f"{found.name} is saved for later.")
    raise web.HTTPSeeOther(f"/shop/product/{found.slug}")


@SHOP.get("cart")
async def _cart(request: web.Request) -> web.Response:
    return _page(request, order_pages.cart_page)


@SHOP.post("cart/add")
async def _add(request: web.Request) -> web.Response:
    state, fields = _state(request), await read_form(request)
    found = find_product(fields.get("product", ""))
    try:
        quantity = read_number(fields, "quantity", 1, 1, QUANTITY)
        orders.add_to_cart(state, found, fields.get("option", ""), quantity)
    except InvalidInputError as error:
        state.message = ShopMessage(str(error), bad=True)
        raise web.HTTPSeeOther(f"/shop/product/{found.slug}") from error
    state.message = ShopMessage(f"{found.name} is in your cart.")
    raise web.HTTPSeeOther("/shop/cart")


@SHOP.post("cart/change")
async def _change(request: web.Request) -> web.Response:
    fields = await read_form(request)
    return _set_quantity(_state(request), fields)


@SHOP.post("cart/remove")
async def _remove(request: web.Request) -> web.Response:
    fields = await read_form(request)
    return _set_quantity(_state(request), {**fields, "quantity": "0"})


def _set_quantity(state: ShopState, fields: dict[str, str]) -> NoReturn:
    found = find_product(fields.get("product", ""))
    try:
        number = read_number(fields, "quantity", 1, 0, QUANTITY)
        orders.change_quantity(state, found, fields.get("option", ""), number)
    except InvalidInputError as error:
        state.message = ShopMessage(str(error), bad=True)
    raise web.HTTPSeeOther("/shop/cart")


@SHOP.post("cart/discount")
async def _discount(request: web.Request) -> web.Response:
    state, code = _state(request), (await read_form(request)).get("code", "").upper()
    if code and code not in orders.CODES:
        state.message = ShopMessage(f"The code “{code[:20]}” is not valid.", bad=True)
    else:
        state.discount = code
        state.message = ShopMessage("The code is applied.") if code else None
    raise web.HTTPSeeOther("/shop/cart")


@SHOP.get("checkout")
async def _checkout(request: web.Request) -> web.Response:
    state = _with_cart(request)
    details = state.details or DeliveryDetails()
    errors = orders.detail_problems(details) if state.details else {}
    return _page(request, order_pages.checkout_page, details, errors)


@SHOP.post("checkout")
async def _send_details(request: web.Request) -> web.Response:
    state, details = _with_cart(request), orders.read_details(await read_form(request))
    state.details = details
    good = not orders.detail_problems(details)
    raise web.HTTPSeeOther("/shop/checkout/review" if good else "/shop/checkout")


@SHOP.get("checkout/review")
async def _review(request: web.Request) -> web.Response:
    details = _valid_details(_with_cart(request))
    return _page(request, order_pages.review_page, details)


@SHOP.post("order")
async def _order(request: web.Request) -> web.Response:
    state = _with_cart(request)
    order = orders.place_order(state, _valid_details(state))
    raise web.HTTPSeeOther(f"/shop/order/{order.number}")


@SHOP.get("order/{number}")
async def _show_order(request: web.Request) -> web.Response:
    number = request.match_info["number"]
    order = next((each for each in _state(request).orders if each.number == number), None)
    if order is None:
        raise MissingPageError("You have no order with this number.")
    return _page(request, order_pages.order_page, order)


@SHOP.get("orders")
async def _orders(request: web.Request) -> web.Response:
    return _page(request, order_pages.orders_page)


@SHOP.post("notice")
async def _close_notice(request: web.Request) -> web.Response:
    _state(request).notice_closed = True
    raise web.HTTPSeeOther("/shop/")


@SHOP.get("help/{topic}")
async def _help(request: web.Request) -> web.Response:
    topic = request.match_info["topic"]
    if topic not in _HELP:
        raise MissingPageError("There is no help on that.")
    return _page(request, frame, topic.capitalize(), _HELP[topic])


def _with_cart(request: web.Request) -> ShopState:
    """Redirects to the cart if it is empty: raises HTTPSeeOther."""
    state = _state(request)
    if not state.cart:
        raise web.HTTPSeeOther("/shop/cart")
    return state


def _valid_details(state: ShopState) -> DeliveryDetails:
    """Redirects to the form if it is not filled in: raises HTTPSeeOther."""
    if state.details is None or orders.detail_problems(state.details):
        raise web.HTTPSeeOther("/shop/checkout")
    return state.details
