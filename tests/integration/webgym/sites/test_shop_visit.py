from typing import Any

from tests.integration.webgym.sites.visiting import Page, Visitor, visit

BUYER = {
    "name": "Ada Quill",
    "email": "ada@example.com",
    "address": "Ropewalk 7",
    "city": "Selwick",
    "postcode": "4410",
    "country": "OR",
    "delivery": "express",
    "payment": "delivery",
}


def test_a_cart_becomes_an_order() -> None:
    async def act(one: Visitor) -> tuple[list[Page], dict[str, Any]]:
        skillet = {"product": "cast-iron-skillet", "option": "26 cm", "quantity": "2"}
        pages = [
            await one.post("/shop/cart/add", skillet),
            await one.post("/shop/cart/change", {**skillet, "quantity": "1"}),
            await one.post("/shop/cart/discount", {"code": "hearth10"}),
            await one.get("/shop/checkout"),
            await one.post("/shop/checkout", {**BUYER, "email": "ada"}),
            await one.post("/shop/checkout", BUYER),
            await one.post("/shop/order"),
        ]
        return pages, await one.truth()

    pages, truth = visit(act)
    added, changed, reduced, form, wrong, review, done = pages
    assert "$132.00" in added.body
    assert "$66.00" in changed.body
    assert "The code is applied." in reduced.body
    assert "not an email address" not in form.body
    assert wrong.url == "/shop/checkout"
    assert "not an email address" in wrong.body
    assert 'value="Ropewalk 7"' in wrong.body
    assert review.url == "/shop/checkout/review"
    assert "$72.30" in review.body
    [order] = truth["shop"]["orders"]
    assert done.url == f"/shop/order/{order['number']}"
    assert order["lines"] == [{"product": "cast-iron-skillet", "option": "26 cm", "quantity": 1}]
    assert (order["discount"], order["total_cents"]) == ("HEARTH10", 7_230)
    assert order["details"]["city"] == "Selwick"
    assert truth["shop"]["cart"] == []


def test_unavailable_products_are_rejected_on_the_same_page() -> None:
    async def act(one: Visitor) -> list[Page]:
        add = "/shop/cart/add"
        return [
            await one.post(add, {"product": "end-grain-chopping-board", "option": "Maple"}),
            await one.post(add, {"product": "cast-iron-skillet", "option": "99 cm"}),
            await one.post(
                add, {"product": "cast-iron-skillet", "option": "20 cm", "quantity": "0"}
            ),
            await one.post("/shop/cart/change", {"product": "cast-iron-skillet", "quantity": "1"}),
            await one.post("/shop/cart/discount", {"code": "FREE"}),
        ]

    refusals = ["out of stock", "one of the variants", "whole number", "not in the cart", "FREE"]
    for page, refusal in zip(visit(act), refusals, strict=True):
        assert page.status == 200
        assert 'class="note bad"' in page.body
        assert refusal in page.body


def test_there_is_no_checkout_without_a_cart_and_no_order_without_details() -> None:
    async def act(one: Visitor) -> list[str]:
        empty = [await one.get("/shop/checkout"), await one.post("/shop/order")]
        await one.post("/shop/cart/add", {"product": "cedar-bird-feeder"})
        hasty = [await one.get("/shop/checkout/review"), await one.post("/shop/order")]
        return [page.url for page in (*empty, *hasty)]

    assert visit(act) == ["/shop/cart"] * 2 + ["/shop/checkout"] * 2


def test_results_come_in_pages_that_keep_the_query() -> None:
    async def act(one: Visitor) -> list[Page]:
        return [
            await one.get("/shop/products?sort=price&stock=1"),
            await one.get("/shop/products?sort=price&stock=1&page=2"),
            await one.get("/shop/products?page=999"),
        ]

    first, second, beyond = visit(act)
    assert "1 to 12 of 56 products" in first.body
    assert "/shop/products?stock=1&sort=price&page=2" in first.addresses
    assert "13 to 24 of 56 products" in second.body
    assert "49 to 60 of 60 products" in beyond.body


def test_a_message_is_shown_once() -> None:
    async def act(one: Visitor) -> list[Page]:
        blanket = {"product": "wool-picnic-blanket"}
        return [
            await one.post("/shop/saved/toggle", blanket),
            await one.get("/shop/saved"),
            await one.post("/shop/saved/toggle", blanket),
            await one.get("/shop/saved"),
        ]

    saved, list_with, gone, list_without = visit(act)
    assert "is saved for later" in saved.body
    assert "is saved for later" not in list_with.body
    assert "Wool Picnic Blanket" in list_with.body
    assert "not saved any more" in gone.body
    assert "Nothing saved so far" in list_without.body


def test_the_notice_stays_closed() -> None:
    async def act(one: Visitor) -> list[Page]:
        return [
            await one.get("/shop/"),
            await one.post("/shop/notice"),
            await one.get("/shop/cart"),
        ]

    assert ["Got it" in page.body for page in visit(act)] == [True, False, False]


def test_suggestions_are_links() -> None:
    page = visit(lambda one: one.get("/shop/suggest?q=kettle"))
    assert '"/shop/product/copper-pour-over-kettle"' in page.body
