"""The pages that show products, and the frame around every page of the shop."""

from pathlib import Path

import msgspec
from yarl import URL

from webgym.sites.shop.catalogue import (
    ANY_CATEGORY,
    BY_SLUG,
    CATEGORIES,
    PAGE_SIZE,
    PRODUCTS,
    RATINGS,
    SORTS,
    Product,
    ProductQuery,
    related_products,
    reviews_of,
    search_products,
)
from webgym.sites.shop.orders import ShopMessage, ShopState, dollars, item_count
from webgym.sites.site import Content, Markup, Template, flag, options, rendered

TEMPLATES = Path(__file__).with_name("templates")
_FRAME = Template.of(TEMPLATES / "frame.html")
_CATEGORY = Template('<a href="/shop/products?category={name}"{current}>{text}</a>')
_CURRENT = Markup(' class="current" aria-current="true"')
_NOTICE = Template(
    '<form class="notice" method="post" action="/shop/notice" aria-label="Notice">'
    "<p>We keep one cookie, so that your cart is still there on the next page.</p>"
    "<button>Got it</button></form>"
)
_NOTE = Template('<p class="note{kind}" role="status">{text}</p>')
_CARD = Template(
    '<article class="card"><a href="/shop/product/{slug}" tabindex="-1" aria-hidden="true">'
    '<img src="/shop/picture/{slug}.svg" alt="" loading="lazy"></a><div class="text">'
    '<a class="name" href="/shop/product/{slug}">{name}</a>'
    '<span class="brand-name">{brand}</span>{stars}<span class="price">{price}</span>{stock}'
    "</div></article>"
)
_STARS = Template(
    '<span class="stars" aria-label="Rated {rating} of 5">{filled}{empty} '
    "<small>{rating} ({reviews})</small></span>"
)
_STOCK = Template('<span class="stock {kind}">{text}</span>')
FEW = 9


def frame(
    state: ShopState, title: str, body: Content, *, text: str = "", category: str = ""
) -> Markup:
    """The whole page, with this body."""
    return _FRAME(
        title=title,
        message=note(state.message),
        body=body,
        text=text,
        count=item_count(state),
        saved=f" ({len(state.saved)})" if state.saved else "",
        categories=[
            _CATEGORY(name=name, text=shown, current=_CURRENT if name == category else None)
            for name, shown in CATEGORIES.items()
        ],
        notice=None if state.notice_closed else _NOTICE(),
    )


def note(message: ShopMessage | None) -> Content:
    """The message about the last action."""
    return _NOTE(text=message.text, kind=" bad" if message.bad else "") if message else None


def card(product: Product) -> Markup:
    """The product as an entry of a list."""
    return _CARD(
        slug=product.slug,
        name=product.name,
        brand=product.brand,
        stars=stars(product),
        price=dollars(product.price_cents),
        stock=stock(product),
    )


def cards(products: list[Product]) -> Markup:
    return rendered(card(each) for each in products)


def stars(product: Product) -> Markup:
    filled = round(product.rating)
    return _STARS(
        rating=product.rating,
        reviews=product.reviews,
        filled="★" * filled,
        empty="☆" * (5 - filled),
    )


def stock(product: Product) -> Markup:
    if not product.stock:
        return _STOCK(kind="out", text="Out of stock")
    if product.stock <= FEW:
        return _STOCK(kind="few", text=f"Only {product.stock} left")
    return _STOCK(kind="", text=f"In stock: {product.stock}")


_HOME = Template.of(TEMPLATES / "home.html")
_LISTING = Template.of(TEMPLATES / "listing.html")
_PRODUCT = Template.of(TEMPLATES / "product.html")
_TILE = Template(
    '<a href="/shop/products?category={name}"><img src="/shop/picture/{slug}.svg" alt="">{text}</a>'
)
_RADIO = Template(
    '<label><input type="radio" name="category" value="{value}"{checked}> {text}</label>'
)
_HIDDEN = Template('<input type="hidden" name="{name}" value="{value}">')
_LINK = Template('<a href="{url}"{rel}>{text}</a>')
_HERE = Template("<b>{text}</b>")
_ROW = Template("<tr><th>{name}</th><td>{value}</td></tr>")
_OPTION = Template(
    '<label>{label} <select name="option" data-prices="{prices}">{choices}</select></label>'
)
_REVIEW = Template(
    '<article class="review"><b>{title}</b> <span class="stars">{stars}</span>'
    "<p>{text}</p><small>{author}</small></article>"
)
_EMPTY = Template("<p>Nothing fits. Try fewer filters or another word.</p>")
_SAVED = Template('<h1>Saved for later</h1><div class="grid">{cards}</div>{empty}')
_NOTHING_SAVED = Template("<p>Nothing saved so far.</p>")


def home(state: ShopState) -> Markup:
    tiles = []
    for name, text in CATEGORIES.items():
        first = next(each for each in PRODUCTS if each.category == name)
        tiles.append(_TILE(name=name, slug=first.slug, text=text))
    favourites = sorted(PRODUCTS, key=lambda each: -each.reviews)[:4]
    rare = sorted((each for each in PRODUCTS if each.stock), key=lambda each: each.stock)[:4]
    body = _HOME(tiles=tiles, favourites=cards(favourites), rare=cards(rare))
    return frame(state, "Things for the home", body)


def listing(state: ShopState, query: ProductQuery) -> Markup:
    """One page of the results; a page beyond the last shows the last."""
    found = search_products(query)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    current = min(query.page, pages)
    first = (current - 1) * PAGE_SIZE
    shown = found[first : first + PAGE_SIZE]
    heading = f"Results for “{query.text}”" if query.text else ANY_CATEGORY[query.category]
    kept = query.parameters(1)
    kept.pop("sort", None)
    body = _LISTING(
        heading=heading,
        text=query.text,
        sort=query.sort,
        low=query.low,
        high=query.high,
        in_stock=flag("checked", query.in_stock),
        categories=[
            _RADIO(value=value, text=text, checked=flag("checked", value == query.category))
            for value, text in ANY_CATEGORY.items()
        ],
        ratings=options(RATINGS.items(), query.rating),
        sorts=options(SORTS.items(), query.sort),
        kept=[_HIDDEN(name=name, value=value) for name, value in kept.items()],
        found=_found(first, len(shown), len(found)),
        cards=cards(shown) or _EMPTY(),
        pages=_pages(query, current, pages) if pages > 1 else None,
    )
    return frame(state, heading, body, text=query.text, category=query.category)


def product_page(state: ShopState, product: Product) -> Markup:
    category = CATEGORIES[product.category]
    body = _PRODUCT(
        slug=product.slug,
        name=product.name,
        brand=product.brand,
        blurb=product.blurb,
        category=product.category,
        category_name=category,
        stars=stars(product),
        stock=stock(product),
        price=dollars(product.price_cents),
        option=_option(product),
        disabled=flag("disabled", not product.stock),
        saving="Remove from saved" if product.slug in state.saved else "Save for later",
        details=[_ROW(name=name, value=value) for name, value in product.details],
        reviews=[
            _REVIEW(
                title=each.title,
                stars="★" * each.stars + "☆" * (5 - each.stars),
                text=each.text,
                author=each.author,
            )
            for each in reviews_of(product)
        ],
        related=cards(related_products(product)),
    )
    return frame(state, product.name, body, category=product.category)


def saved_page(state: ShopState) -> Markup:
    saved = cards([BY_SLUG[slug] for slug in state.saved])
    body = _SAVED(cards=saved, empty=None if state.saved else _NOTHING_SAVED())
    return frame(state, "Saved for later", body)


def _option(product: Product) -> Content:
    if product.option is None:
        return None
    names = product.choice_names
    prices = {name: dollars(product.price(name)) for name in names}
    return _OPTION(
        label=product.option.label,
        prices=msgspec.json.encode(prices).decode(),
        choices=options(zip(names, names, strict=True), names[0]),
    )


def _found(first: int, shown: int, found: int) -> str:
    if not found:
        return "No products found"
    return f"{first + 1} to {first + shown} of {found} products"


def _pages(query: ProductQuery, current: int, pages: int) -> list[Markup]:
    def link(number: int, text: str, rel: str = "") -> Markup:
        url = URL("/shop/products").with_query(query.parameters(number))
        return _LINK(url=str(url), text=text, rel=Markup(f' rel="{rel}"') if rel else None)

    parts = [link(current - 1, "Previous", "prev")] if current > 1 else []
    for number in range(1, pages + 1):
        here = number == current
        parts.append(_HERE(text=number) if here else link(number, str(number)))
    if current < pages:
        parts.append(link(current + 1, "Next", "next"))
    return parts
