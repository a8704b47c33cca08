"""The products with their reviews and images, and the search for products.

Images are drawn: each kind of product is a few shapes in three shades of one hue.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from random import Random

import msgspec

from webgym.sites.errors import MissingPageError
from webgym.sites.site import Markup, Template, read_choice, read_number

CATEGORIES = {
    "kitchen": "Kitchen",
    "lighting": "Lighting",
    "outdoors": "Outdoors",
    "office": "Office",
    "audio": "Audio",
    "garden": "Garden",
}
ANY_CATEGORY = {"": "All products", **CATEGORIES}
RATINGS = {"": "Any rating", "3": "3 stars and up", "4": "4 stars and up", "4.5": "4.5 and up"}
SORTS = {
    "relevance": "Best match",
    "price": "Price: low to high",
    "price-down": "Price: high to low",
    "rating": "Highest rated",
    "name": "Name: A to Z",
}
PAGE_SIZE = 12
SUGGESTIONS = 6
RELATED = 4
REVIEWS = 3
HIGHEST_PRICE = 100_000


class ProductVariant(msgspec.Struct, frozen=True):
    """One variant of a product, and its extra price."""

    name: str
    extra_cents: int = 0


class ProductOption(msgspec.Struct, frozen=True):
    """The variants of a product."""

    label: str
    choices: tuple[ProductVariant, ...]


class Product(msgspec.Struct, frozen=True):
    """A product of the data file."""

    slug: str
    name: str
    brand: str
    category: str
    price_cents: int
    rating: float
    reviews: int
    stock: int
    drawing: str
    hue: int
    blurb: str
    details: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    option: ProductOption | None = None

    @property
    def choice_names(self) -> tuple[str, ...]:
        return tuple(choice.name for choice in self.option.choices) if self.option else ()

    def price(self, chosen: str) -> int:
        """The price of one piece of a variant, in cents."""
        choices = self.option.choices if self.option else ()
        extra = next((each.extra_cents for each in choices if each.name == chosen), 0)
        return self.price_cents + extra


class ProductQuery(msgspec.Struct, frozen=True):
    """A search. Prices are in whole dollars; both limits are included."""

    text: str = ""
    category: str = ""
    low: int | None = None
    high: int | None = None
    rating: str = ""
    in_stock: bool = False
    sort: str = "relevance"
    page: int = 1

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "ProductQuery":
        """Raises InvalidInputError."""
        return cls(
            text=fields.get("q", ""),
            category=read_choice(fields, "category", ANY_CATEGORY),
            low=_price(fields, "low"),
            high=_price(fields, "high"),
            rating=read_choice(fields, "rating", RATINGS),
            in_stock=bool(fields.get("stock")),
            sort=read_choice(fields, "sort", SORTS),
            page=read_number(fields, "page", 1, 1, 1_000),
        )

    def parameters(self, page: int) -> dict[str, str]:
        """The URL parameters of this query, for one page of its results."""
        given = {
            "q": self.text,
            "category": self.category,
            "low": "" if self.low is None else str(self.low),
            "high": "" if self.high is None else str(self.high),
            "rating": self.rating,
            "stock": "1" if self.in_stock else "",
            "sort": "" if self.sort == "relevance" else self.sort,
            "page": "" if page == 1 else str(page),
        }
        return {name: text for name, text in given.items() if text}


def find_product(slug: str) -> Product:
    """Raises MissingPageError."""
    found = BY_SLUG.get(slug)
    if found is None:
        raise MissingPageError("We do not sell that, or not any more.")
    return found


def search_products(query: ProductQuery) -> list[Product]:
    """All products that match, in the order of the query."""
    words = _words(query.text)
    found = [each for each in PRODUCTS if _fits(each, query) and _mentions(each, words)]
    match query.sort:
        case "price":
            found.sort(key=lambda each: each.price_cents)
        case "price-down":
            found.sort(key=lambda each: -each.price_cents)
        case "rating":
            found.sort(key=lambda each: (-each.rating, -each.reviews))
        case "name":
            found.sort(key=lambda each: each.name)
        case _:
            found.sort(key=lambda each: -_named(each, words))
    return found


def suggest_products(text: str) -> list[Product]:
    """Products whose name has all the typed words, or words that start so."""
    words = _words(text)
    return [each for each in PRODUCTS if words and _named(each, words) == len(words)][:SUGGESTIONS]


def related_products(to: Product) -> list[Product]:
    """Other products of the same category, those with the same drawing first."""
    others = [each for each in PRODUCTS if each.category == to.category and each is not to]
    return sorted(others, key=lambda each: each.drawing != to.drawing)[:RELATED]


def _price(fields: Mapping[str, str], name: str) -> int | None:
    return read_number(fields, name, 0, 0, HIGHEST_PRICE) if fields.get(name) else None


def _fits(each: Product, query: ProductQuery) -> bool:
    return (
        query.category in ("", each.category)
        and (query.low is None or each.price_cents >= query.low * 100)
        and (query.high is None or each.price_cents <= query.high * 100)
        and each.rating >= float(query.rating or 0)
        and (each.stock > 0 or not query.in_stock)
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _begins(word: str, words: list[str]) -> bool:
    """Whether one of the words starts with this word, or with its singular."""
    return any(each.startswith((word, word.removesuffix("s") or word)) for each in words)


def _named(each: Product, words: list[str]) -> int:
    """How many of the words are in the name."""
    name = _words(each.name)
    return sum(_begins(word, name) for word in words)


def _mentions(each: Product, words: list[str]) -> bool:
    text = _words(f"{each.name} {each.brand} {each.category} {' '.join(each.words)}")
    return all(_begins(word, text) for word in words)


def _read() -> tuple[Product, ...]:
    lines = Path(__file__).with_name("products.jsonl").read_bytes().splitlines()
    decoder = msgspec.json.Decoder(Product)
    return tuple(decoder.decode(line) for line in lines)


PRODUCTS = _read()
BY_SLUG = {each.slug: each for each in PRODUCTS}


_AUTHORS = (
    "Marit O.", "Jonas K.", "Priya S.", "Tomasz W.", "Elin B.", "Hugo F.", "Noor A.", "Casper L.",
    "Wen H.", "Ida R.", "Oskar V.", "Rosa D.", "Femke J.", "Luca P.",
)  # fmt: skip
_PRAISE = (
    ("Worth the wait", "It took a week to arrive and I would wait again. Everything fits."),
    ("Better than expected", "I bought it for the price and keep it for the finish."),
    ("Daily use, no complaints", "Half a year of daily use and it looks as it did on day one."),
    ("A good present", "My sister asked where it was from before she said thank you."),
    ("Simple and solid", "Nothing on it that does not need to be there."),
    ("Second one", "The first is at the cabin, so this one is for home."),
)
_DOUBT = (
    ("Good, with a catch", "Does what it should, but the packaging was twice as big as it."),
    ("Fine", "Nothing special, nothing wrong. The colour is a bit darker than in the picture."),
    ("Smaller than I thought", "Read the measurements, unlike me. Otherwise good."),
    ("Not for me", "Well made, but I sent it back. The return was easy."),
)


class Review(msgspec.Struct, frozen=True):
    """A customer's review."""

    author: str
    stars: int
    title: str
    text: str


def reviews_of(product: Product) -> list[Review]:
    random = Random(product.slug)  # noqa: S311 - the choice must repeat
    authors = random.sample(_AUTHORS, REVIEWS)
    praise = random.sample(_PRAISE, REVIEWS - 1)
    doubt = random.choice(_DOUBT)
    stars = [5, 5 if product.rating >= 4.5 else 4, 3]
    return [
        Review(author, star, title, text)
        for author, star, (title, text) in zip(authors, stars, [*praise, doubt], strict=True)
    ]


_PICTURE = Template(
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200">'
    '<rect width="200" height="200" fill="{ground}"/>'
    '<circle cx="100" cy="96" r="78" fill="{halo}"/>'
    '<ellipse cx="100" cy="168" rx="62" ry="7" fill="{shadow}"/>{shapes}</svg>'
)
SHAPES = {
    path.stem: Template.of(path) for path in Path(__file__).with_name("drawings").glob("*.svg")
}


def drawing(product: Product) -> Markup:
    """The image of a product, as SVG."""
    hue = product.hue
    shapes = SHAPES[product.drawing](
        main=f"hsl({hue} 52% 52%)", dark=f"hsl({hue} 38% 28%)", light=f"hsl({hue} 60% 88%)"
    )
    return _PICTURE(
        shapes=shapes,
        ground=f"hsl({hue} 30% 95%)",
        halo=f"hsl({(hue + 30) % 360} 38% 89%)",
        shadow=f"hsl({hue} 20% 78%)",
    )
