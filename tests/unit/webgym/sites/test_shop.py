import pytest

from webgym.sites.errors import InvalidInputError, MissingPageError
from webgym.sites.shop.catalogue import (
    BY_SLUG,
    CATEGORIES,
    PRODUCTS,
    SHAPES,
    SORTS,
    ProductQuery,
    drawing,
    find_product,
    related_products,
    reviews_of,
    search_products,
    suggest_products,
)
from webgym.sites.shop.orders import (
    CART_LINES,
    FREE_FROM_CENTS,
    ORDERS,
    STANDARD_CENTS,
    CartLine,
    DeliveryDetails,
    ShopState,
    add_to_cart,
    cart_totals,
    change_quantity,
    detail_problems,
    dollars,
    place_order,
    read_details,
)

GOOD = DeliveryDetails("Ada", "ada@example.com", "Quay 1", "Hest", "1200", "OR")


def slugs(query: ProductQuery) -> list[str]:
    return [each.slug for each in search_products(query)]


def test_the_catalogue_is_whole() -> None:
    assert len(PRODUCTS) == 60
    assert {each.category for each in PRODUCTS} == set(CATEGORIES)
    assert {each.drawing for each in PRODUCTS} == set(SHAPES)
    for each in PRODUCTS:
        assert 1 <= each.rating <= 5
        assert each.price_cents > 0
        assert len(set(each.choice_names)) == len(each.choice_names)
        assert drawing(each).count("<svg") == 1
        assert len(reviews_of(each)) == 3


def test_all_words_must_be_in_a_product_and_plurals_are_understood() -> None:
    assert slugs(ProductQuery(text="copper kettle")) == ["copper-pour-over-kettle"]
    assert set(slugs(ProductQuery(text="kettles"))) == {
        "copper-pour-over-kettle",
        "whistling-stovetop-kettle",
    }
    assert slugs(ProductQuery(text="nothing of the kind")) == []


def test_filters_hold_together() -> None:
    found = search_products(
        ProductQuery(category="lighting", low=30, high=80, rating="4.5", in_stock=True)
    )
    assert found
    for each in found:
        assert each.category == "lighting"
        assert 3_000 <= each.price_cents <= 8_000
        assert each.rating >= 4.5
        assert each.stock


def test_every_order_has_all_products() -> None:
    for sort in SORTS:
        assert sorted(slugs(ProductQuery(sort=sort))) == sorted(BY_SLUG)


def test_products_are_sorted_by_price_and_rating() -> None:
    prices = [each.price_cents for each in search_products(ProductQuery(sort="price"))]
    assert prices == sorted(prices)
    ratings = [each.rating for each in search_products(ProductQuery(sort="rating"))]
    assert ratings == sorted(ratings, reverse=True)


def test_an_invalid_query_is_rejected() -> None:
    for fields in [
        {"category": "weapons"},
        {"low": "-1"},
        {"high": "ten"},
        {"sort": "random"},
        {"rating": "6"},
        {"page": "0"},
        {"page": "9" * 30},
        {"low": "٣"},
    ]:
        with pytest.raises(InvalidInputError):
            ProductQuery.of(fields)


def test_a_query_is_the_same_after_a_round_through_a_url() -> None:
    query = ProductQuery("a & b", "audio", 10, 90, "4", True, "price", 3)
    assert ProductQuery.of(query.parameters(3)) == query
    assert ProductQuery.of(ProductQuery().parameters(1)) == ProductQuery()


def test_suggestions_match_the_typed_words() -> None:
    assert [each.name for each in suggest_products("stone")] == ["Stoneware Mug, Set of Four"]
    assert suggest_products("  ") == []


def test_related_products_are_of_the_same_category_and_not_the_same() -> None:
    skillet = find_product("cast-iron-skillet")
    assert next(each.slug for each in related_products(skillet)) == "carbon-steel-wok"
    assert skillet not in related_products(skillet)
    with pytest.raises(MissingPageError):
        find_product("../etc/passwd")


def test_the_same_variant_is_one_line_and_another_is_another() -> None:
    state = ShopState()
    for option in ("20 cm", "26 cm", "20 cm"):
        add_to_cart(state, find_product("cast-iron-skillet"), option, 1)
    assert state.cart == [
        CartLine("cast-iron-skillet", "20 cm", 2),
        CartLine("cast-iron-skillet", "26 cm", 1),
    ]
    assert cart_totals(state).goods == 2 * 5_200 + 6_600


def test_more_than_there_is_and_variants_there_are_not_cannot_be_had() -> None:
    state = ShopState()
    with pytest.raises(InvalidInputError, match="out of stock"):
        add_to_cart(state, find_product("end-grain-chopping-board"), "Maple", 1)
    with pytest.raises(InvalidInputError, match="at most 9"):
        add_to_cart(state, find_product("carbon-steel-wok"), "Wood", 10)
    with pytest.raises(InvalidInputError, match="variants"):
        add_to_cart(state, find_product("carbon-steel-wok"), "Gold", 1)
    with pytest.raises(InvalidInputError, match="variants"):
        add_to_cart(state, find_product("carbon-steel-wok"), "", 1)
    assert state.cart == []


def test_a_cart_is_bounded() -> None:
    state = ShopState()
    wanted = [(each, name) for each in PRODUCTS if each.stock for name in each.choice_names]
    for each, name in wanted[:CART_LINES]:
        add_to_cart(state, each, name, 1)
    with pytest.raises(InvalidInputError, match="full"):
        add_to_cart(state, *wanted[CART_LINES], 1)


def test_a_line_can_be_changed_and_removed() -> None:
    state = ShopState()
    kettle = find_product("copper-pour-over-kettle")
    add_to_cart(state, kettle, "Copper", 1)
    change_quantity(state, kettle, "Copper", 3)
    assert state.cart[0].quantity == 3
    with pytest.raises(InvalidInputError, match="at most 14"):
        change_quantity(state, kettle, "Copper", 15)
    change_quantity(state, kettle, "Copper", 0)
    assert state.cart == []
    with pytest.raises(InvalidInputError, match="not in the cart"):
        change_quantity(state, kettle, "Copper", 1)


def test_delivery_is_free_from_a_sum_that_the_discount_counts_against() -> None:
    state = ShopState()
    add_to_cart(state, find_product("insulated-bottle-1-litre"), "Lake", 3)
    assert cart_totals(state).delivery == STANDARD_CENTS
    add_to_cart(state, find_product("insulated-bottle-1-litre"), "Lake", 1)
    assert cart_totals(state).goods >= FREE_FROM_CENTS
    assert cart_totals(state).delivery == 0
    state.discount = "SPRING15"
    assert cart_totals(state).total == 12_800 - 1_920 + 0
    state.discount = "HEARTH10"
    change_quantity(state, find_product("insulated-bottle-1-litre"), "Lake", 3)
    assert cart_totals(state).total == 9_600 - 960 + STANDARD_CENTS
    assert cart_totals(state, "express").delivery == 1_290
    assert cart_totals(ShopState(), "express").total == 0


def test_money_is_written_with_cents() -> None:
    assert [dollars(cents) for cents in (0, 5, 123_456)] == ["$0.00", "$0.05", "$1,234.56"]


def test_the_form_names_its_problems() -> None:
    assert set(detail_problems(DeliveryDetails())) == {
        "name",
        "email",
        "address",
        "city",
        "postcode",
        "country",
    }
    assert detail_problems(GOOD) == {}
    for email in ("ada", "ada@example", "a b@c.de", "@example.com"):
        assert "email" in detail_problems(read_details({"email": email}))
    assert "postcode" in detail_problems(read_details({"postcode": "!!"}))
    with pytest.raises(InvalidInputError):
        read_details({"country": "XX"})


def test_an_order_empties_the_cart_and_its_number_follows_from_its_content() -> None:
    def ordered(option: str) -> str:
        state = ShopState()
        add_to_cart(state, find_product("cast-iron-skillet"), option, 1)
        order = place_order(state, GOOD)
        assert (state.cart, state.orders) == ([], [order])
        return order.number

    assert ordered("20 cm") == ordered("20 cm") != ordered("26 cm")


def test_equal_orders_of_one_visitor_have_numbers_of_their_own_and_are_bounded() -> None:
    state = ShopState()
    for _ in range(ORDERS + 2):
        add_to_cart(state, find_product("cast-iron-skillet"), "20 cm", 1)
        place_order(state, GOOD)
    assert len(state.orders) == ORDERS
    assert len({order.number for order in state.orders[:-2]}) == ORDERS - 2
