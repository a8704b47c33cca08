"""What is around every page of the shop."""

from pathlib import Path

from webgym.sites.markup import Content, Markup, Template, rendered
from webgym.sites.shop.cart import count, dollars
from webgym.sites.shop.catalogue import CATEGORIES, Product
from webgym.sites.shop.state import Message, ShopState

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
    """The whole page."""
    return _FRAME(
        title=title,
        message=note(state.message),
        body=body,
        text=text,
        count=count(state),
        saved=f" ({len(state.saved)})" if state.saved else "",
        categories=[
            _CATEGORY(name=name, text=shown, current=_CURRENT if name == category else None)
            for name, shown in CATEGORIES.items()
        ],
        notice=None if state.notice_closed else _NOTICE(),
    )


def note(message: Message | None) -> Content:
    """A line about what just happened."""
    return _NOTE(text=message.text, kind=" bad" if message.bad else "") if message else None


def card(product: Product) -> Markup:
    """The product as part of a list."""
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
